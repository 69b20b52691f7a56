# A program that holds files open and mapped, and does with them what it is told, one line at a time.
import errno, mmap, os, sys

files, maps = {}, {}


def do(verb, name, *rest):
    if verb == "open":
        flags = 0
        for word in rest[1].split("|"):
            flags |= getattr(os, word)
        files[name] = os.open(rest[0], flags, 0o644)
    elif verb == "read":
        return os.pread(files[name], int(rest[1]), int(rest[0])).decode("latin-1")
    elif verb == "write":
        os.pwrite(files[name], rest[1].encode(), int(rest[0]))
    elif verb == "append":
        os.write(files[name], rest[0].encode())
    elif verb == "truncate":
        os.ftruncate(files[name], int(rest[0]))
    elif verb == "sync":
        os.fsync(files[name])
    elif verb == "size":
        return str(os.fstat(files[name]).st_size)
    elif verb == "map":
        maps[name] = mmap.mmap(files[name], 0)
    elif verb == "peek":
        start, length = int(rest[0]), int(rest[1])
        return maps[name][start : start + length].decode("latin-1")
    elif verb == "poke":
        start, text = int(rest[0]), rest[1].encode()
        maps[name][start : start + len(text)] = text
    elif verb == "push":
        maps[name].flush()
    elif verb == "close":
        os.close(files.pop(name))
    return ""


for line in sys.stdin:
    try:
        answer = "ok " + do(*line.rstrip("\n").split(" "))
    except OSError as error:
        answer = errno.errorcode[error.errno]
    print(answer, flush=True)
