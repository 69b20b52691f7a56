#!/bin/sh
# An agent that does what is asked of it: it changes files in several places, makes one, and commits that. A branch may be
# named for more of it.
set -eu
sed -i 's/^# Web$/# The web/; s/^Line 30$/Line thirty/; s/^Line 60$/Line sixty/' README.md
echo "// by the agent" >>src/main.rs
echo "what was done" >>notes.md
git add -A
git commit -q -m "Do what was asked"
if [ $# -gt 0 ]; then
    git checkout -q -b "$1"
    echo "more" >>notes.md
    git commit -q -a -m "Do more"
    git checkout -q -
fi
