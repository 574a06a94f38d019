# SPDX-License-Identifier: MIT OR Apache-2.0
# Data mining: a cluster that runs large jobs.
# Source: Greenberg et al., VL2, SIGCOMM 2009, section 3, as points.
# Mean: 12.66 MB.
#
# Size, and the probability of a flow of at most that size; linear in between.
unit bytes
         0 0
       180 0.1
       216 0.2
       560 0.3
       900 0.4
      1100 0.5
      1870 0.6
      3160 0.7
     10000 0.8
    400000 0.9
   3160000 0.95
 100000000 0.98
1000000000 1
