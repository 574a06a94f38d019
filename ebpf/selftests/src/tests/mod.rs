// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tests.

mod attach;
mod echo;
mod fabric;
mod malformed;
mod options;
mod policy;
mod records;
mod spray;
mod wire;

use weft_ktap::{Part, Test};

macro_rules! parts {
    ($($part:ident: $($(#[$($mark:tt)+])* $name:ident)*;)*) => {
        /// All parts. A test returns figures to print. `#[once]` before a name: see [`Test::once`].
        pub(crate) const PARTS: &[Part] = &[$(Part::new(
            stringify!($part),
            &[$(weft_ktap::marked!(
                Test::new(stringify!($name), |cx| $part::$name().map(|figures| cx.note(figures)));
                $([$($mark)+])*
            )),*],
        )),*];
    };
}

parts! {
    attach:
        the_verifier_accepts_every_program
        detaching_leaves_nothing_behind
        detaching_from_clsact_leaves_nothing_behind
        a_qdisc_with_foreign_filters_stays
        later_filters_still_run
        attaching_twice_is_refused_and_changes_nothing
        an_mtu_without_room_is_refused
        routes_of_other_devices_to_the_same_prefix_stay
        a_next_hop_without_carrier_does_not_prevent_attaching
        the_next_detach_restores_what_an_earlier_one_could_not
        a_foreign_program_of_a_cgroup_stays
        an_attach_that_was_killed_is_detached
        socket_options_are_attached_together_or_not_at_all
        a_renamed_device_is_found
        a_path_mtu_does_not_become_a_route
        routes_by_nexthop_objects_have_room;
    options:
        an_unprivileged_program_sets_and_reads_back_an_option
        misuse_gets_its_errno
        outside_the_cgroup_the_kernel_knows_no_such_option
        socket_options_of_other_levels_are_not_touched
        a_value_of_another_layout_is_reported_in_the_kernels_log
        #[stock] an_interrupted_setsockopt_leaves_the_flows_begin_correct;
    wire:
        each_packet_carries_exactly_the_remaining_size_v4
        each_packet_carries_exactly_the_remaining_size_v6
        each_packet_carries_exactly_the_remaining_size_at_clsact
        a_retransmission_carries_the_same_rank_v4
        #[once] a_retransmission_carries_the_same_rank_v6
        a_second_flow_begins_after_the_unsent_bytes_of_the_first
        a_burst_carries_the_rank_of_its_first_byte
        a_tagged_packet_never_exceeds_the_mtu
        datagrams_and_their_fragments_are_tagged
        all_packets_carry_a_tag_if_requested
        untagged_traffic_passes_unchanged
        data_without_a_tag_goes_last_at_a_switch;
    policy:
        #[once] size_is_the_flow_size_on_every_packet
        sent_counts_the_bytes_before
        #[once] queued_is_the_number_of_bytes_in_the_socket
        #[once] fixed_is_the_class_or_the_number
        #[once] deadline_is_the_time_left
        #[once] bytes_beyond_the_size_fall_back;
    echo:
        the_largest_stamp_comes_back_v4
        the_largest_stamp_comes_back_v6
        policy_echo_needs_tags_on_all_packets
        #[exact = "judges a rate"]
        hpcc_keeps_the_link_near_its_target;
    records:
        the_records_of_each_packet_come_back_v4
        the_records_of_each_packet_come_back_v6
        policy_records_adds_no_tags
        detaching_gives_the_room_back
        a_packet_without_room_goes_as_it_is
        #[exact = "judges a rate"]
        hpcc_keeps_the_link_near_its_target
        #[exact = "judges a rate"]
        powertcp_fills_the_link;
    spray:
        round_robin_splits_evenly_v4
        #[once] round_robin_splits_evenly_v6
        #[once] round_robin_over_three_paths_splits_evenly
        ports_that_share_programs_take_turns_each_on_its_own
        random_takes_every_path
        a_packet_takes_the_path_in_its_tag
        #[once] off_keeps_a_flow_on_one_path;
    fabric:
        #[exact = "judges how long flows take"]
        short_flows_overtake_long_ones_at_a_pfabric_port
        a_tags_bytes_take_time_on_the_hosts_wire;
    malformed:
        malformed_tags_are_counted_and_not_changed
        random_bytes_break_nothing;
}
