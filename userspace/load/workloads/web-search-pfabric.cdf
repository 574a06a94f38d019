# SPDX-License-Identifier: MIT OR Apache-2.0
# Web search as the authors of pFabric simulated it (Alizadeh et al., SIGCOMM 2013, section 5).
# A packet carries 1460 B of payload. Mean: 1141 packets; published, and in their scripts, as 1138.
#
# Size, and the probability of a flow of at most that size; linear in between.
unit packets
         6 0
         6 0.15
        13 0.2
        19 0.3
        33 0.4
        53 0.53
       133 0.6
       667 0.7
      1333 0.8
      3333 0.9
      6667 0.97
     20000 1
