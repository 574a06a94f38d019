# SPDX-License-Identifier: MIT OR Apache-2.0
# Short flows, uniform between 100 kB and 500 kB.
# Source: Munir et al., PASE, SIGCOMM 2014, section 4; D2TCP (Vamanan et al., SIGCOMM 2012).
#
# Size, and the probability of a flow of at most that size; linear in between.
unit bytes
    100000 0
    500000 1
