# SPDX-License-Identifier: MIT OR Apache-2.0
# Data mining as the authors of pFabric simulated it (Alizadeh et al., SIGCOMM 2013, section 5);
# it differs from the table data-mining. A packet carries 1460 B of payload. Mean: 5117 packets.
#
# Size, and the probability of a flow of at most that size; linear in between.
unit packets
         1 0
         1 0.5
         2 0.6
         3 0.7
         7 0.8
       267 0.9
      2107 0.95
     66667 0.99
    666667 1
