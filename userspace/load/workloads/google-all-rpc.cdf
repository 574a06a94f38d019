# SPDX-License-Identifier: MIT OR Apache-2.0
# All RPCs in a datacenter of Google's.
# Source: Montazeri et al., Homa, SIGCOMM 2018, workload W3; the "Google" of BFC (NSDI 2022).
#
# Size, and the probability of a flow of at most that size; linear in between.
unit bytes
         3 0.06488
        32 0.09732
        64 0.15527
       128 0.35157
       256 0.49790
       512 0.78492
      1024 0.8632
      2048 0.90886
      4096 0.93496
      8192 0.96431
     16384 0.98469
     32768 0.99040
     65536 0.99326
    131072 0.99713
    262144 0.99845
    524288 0.99950
   1048576 0.99976
   2097152 0.99989
   4194304 0.99995
  15158197 1
