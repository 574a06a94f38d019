# SPDX-License-Identifier: MIT OR Apache-2.0
# Alibaba's block storage, 2019.
# Source: the published simulations of HPCC (Li et al., SIGCOMM 2019), AliStorage2019.
#
# Size, and the probability of a flow of at most that size; linear in between.
unit bytes
         0 0
      4000 0.2293
      8000 0.6921
     16000 0.8061
     32000 0.9047
     64000 0.9353
    128000 0.9677
    256000 0.9753
   2000000 1
