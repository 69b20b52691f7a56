//! The same calls in a tree that is mounted twice and in a directory of the host, where each kernel is
//! notified of the effects of each call through the other mount before the next call.

use proptest::prelude::*;

use crate::like_the_host::call::calls;
use crate::like_the_host::{config, make_in_both};

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn calls_through_two_mounts_have_the_same_answers_as_at_the_host(calls in calls(2)) {
        make_in_both(2, &calls);
    }
}
