"""Hands requests on to a server on this machine, with a token added: for clients that cannot bring one.

    with-token.py TO_PORT TOKEN      prints its own port

A request that names this proxy as its host or origin is handed on with the name of the server. Any other host, and
everything else, stays as it is: what the server refuses, it refuses here too.
"""

import socket
import sys
import threading


def main():
    to_port, token = int(sys.argv[1]), sys.argv[2]
    listener = socket.create_server(("127.0.0.1", 0))
    own_port = listener.getsockname()[1]
    print(own_port, flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, own_port, to_port, token), daemon=True).start()


def serve(client, own_port, to_port, token):
    server = socket.create_connection(("127.0.0.1", to_port))
    threading.Thread(target=copy, args=(server, client), daemon=True).start()
    requests = client.makefile("rb")
    try:
        while hand_on(requests, server, own_port, to_port, token):
            pass
        server.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # One of the two has gone away, and the other one is told by its own end.


def hand_on(requests, server, own_port, to_port, token):
    """Hands one request on; false at the end of the connection."""
    first = requests.readline()
    if not first:
        return False
    head, length, is_chunked = [first], 0, False
    while (line := requests.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        name, value = name.strip().lower(), value.strip()
        if name in (b"host", b"origin") and value.endswith(b":%d" % own_port):
            place = value.rsplit(b":", 1)[0]
            line = b"%s: %s:%d\r\n" % (name, place, to_port)
        elif name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            is_chunked = value.lower() == b"chunked"
        head.append(line)
    head.append(b"Authorization: Bearer %s\r\n\r\n" % token.encode())
    server.sendall(b"".join(head))
    if is_chunked:
        while True:
            size = requests.readline()
            chunk = requests.read(int(size.split(b";")[0], 16) + 2)
            server.sendall(size + chunk)
            if chunk == b"\r\n":
                return True
    server.sendall(requests.read(length))
    return True


def copy(server, client):
    try:
        while data := server.recv(65536):
            client.sendall(data)
        client.shutdown(socket.SHUT_WR)
    except OSError:
        pass


if __name__ == "__main__":
    main()
