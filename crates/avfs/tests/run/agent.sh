#!/bin/bash
# What agents do, by name.
tries() { if "$@" 2>/dev/null; then echo "$1: done"; else echo "$1: refused"; fi; }

state() {
    cat ~/.agent.json ~/.agent/token
    exec 7<>~/.agent/sessions-scratch; rm ~/.agent/sessions-scratch; echo kept >&7; /usr/bin/python3 -c "import os; os.ftruncate(7, 2); print(os.fstat(7).st_size)"; exec 7>&-
    echo '{"runs":2}' >~/.agent.json.tmp && mv ~/.agent.json.tmp ~/.agent.json
    echo fresh >~/.agent/.token-from-server && mv ~/.agent/.token-from-server ~/.agent/token
    mkdir -p ~/.agent/sessions && echo one >>~/.agent/sessions/log
    tries tee ~/.agent/settings.json <<<changed
    tries touch ~/.agent/hooks/start
    tries rm -f ~/.agent/settings.json
    tries mv ~/.agent/settings.json ~/elsewhere
    tries ln -s /etc/passwd ~/.agent/sessions/link
    ls -A ~
    tries ls ~/.ssh
    tries cat ~/.netrc
    mkdir -p ~/.cache/own && echo private >~/.cache/own/file && cat ~/.cache/own/file
    echo changed >work.txt
    git config user.email
    env | grep -c -e SECRET || true
}

terminal() {
    trap 'echo "size $(stty size)"' WINCH
    trap 'echo interrupted' INT
    echo "ready $(stty size) $(tty)"
    line=
    while [ "$line" != quit ]; do
        # `read` with a time limit would abandon a trap that runs when the time is up.
        until read -r -t 0; do
            sleep 0.1 &
            wait $!
        done
        read -r line
        echo "heard $line"
    done
    exit 4
}

https() {
    exec /usr/bin/python3 -c '
import os, urllib.request
print(urllib.request.urlopen(os.environ["AGENT_URL"], timeout=60).status)
try:
    urllib.request.urlopen("https://127.0.0.3:1", timeout=60)
    print("reached")
except OSError as error:
    print("not reached")'
}

hold() {
    (trap "" HUP TERM; exec sleep 100000) &
    echo ready
    exec sleep 100000
}

"$@"
