//! Listings with attributes.

use crate::together::scene;

#[test]
fn the_first_walk_after_mounting_asks_for_no_file_by_its_name() {
    scene(
        "avfs mount v one
        for directory in $(seq 20); do
            mkdir one/$directory
            (cd one/$directory && touch $(seq 100))
        done
        avfs unmount one
        avfs mount v one
        test $(find one -size 0 -type f | wc -l) = 2000
        avfs mounts --json > counted
        avfs unmount one
        grep -q '\"readdirplus\":' counted
        # A kind of request that was never made is not counted.
        looked_up=$(grep -o '\"lookup\":[0-9]*' counted | cut -d: -f2 || true)
        test \"${looked_up:-0}\" -lt 200 || { echo \"$looked_up names were asked for\"; exit 1; }",
    );
}
