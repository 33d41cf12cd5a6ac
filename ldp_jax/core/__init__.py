"""The base of every other room.

Types, checks, random words, integer tables, spaces, the mechanism protocol.

* :mod:`mechanism <ldp_jax.core.mechanism>` - the protocol of a mechanism, and how to write one;
* :mod:`spaces <ldp_jax.core.spaces>` - domains of records and codomains of reports;
* :mod:`integer_tables <ldp_jax.core.integer_tables>` - laws in whole numbers over 2^32, whose
  epsilon is exact;
* :mod:`rounding <ldp_jax.core.rounding>` - of epsilons, to the safe side;
* :mod:`random <ldp_jax.core.random>` - ``jax.random``, bit for bit and faster on a CPU;
* :mod:`random_words <ldp_jax.core.random_words>`, :mod:`whole_noise <ldp_jax.core.whole_noise>` -
  of samplers;
* :mod:`public_bounds <ldp_jax.core.public_bounds>` - bounds that are taken off in float64;
* :mod:`float32 <ldp_jax.core.float32>` - products that a GPU or a TPU does not round to fewer bits;
* :mod:`flags <ldp_jax.core.flags>` - the library's programs run under any of JAX's strict flags;
* :mod:`long_sums <ldp_jax.core.long_sums>` - sums of many float32 rows, whose rounding does not
  grow with them;
* :mod:`sharding <ldp_jax.core.sharding>` - arrays that are divided among devices;
* :mod:`shown <ldp_jax.core.shown>` - texts without records, neighbour lists and keys;
* :func:`compilation_cache <ldp_jax.core.compilation.compilation_cache>` - compiled programs kept on
  disk;
* :func:`leave_room_for_programs <ldp_jax.core.compilation.leave_room_for_programs>` - compiled
  programs forgotten in long runs.
"""

from ldp_jax.core import lazy

__getattr__, __dir__ = lazy.attach(
    __name__,
    {"compilation": "compilation_cache leave_room_for_programs"},
    "blocks checksum flags float32 float64 integer_tables label_channel list_ids long_sums"
    " mechanism ownership personal_alphabets progress public_bounds pytree quadrature random"
    " random_words rounding sharding shown spaces types validate whole_noise",
)
