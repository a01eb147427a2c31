"""A client of the Mooncake store for test_mooncake.py: reads commands from stdin, one JSON list a line, and answers each
with one line of JSON. A process of its own, as its library wants a search path from the start.

usage: mooncake_client.py FOLDER METADATA_URL MASTER
"""
import json
import os
import sys


def commands(store):
    return {
        "put": lambda key, size: store.put(key, bytes(size)),
        "get": lambda key: len(store.get(key)),
        "exists": store.is_exist,
        "remove": store.remove,
    }


def main(folder, metadata, master):
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints is not an answer
    sys.path.insert(0, folder)
    from mooncake.store import MooncakeDistributedStore
    store = MooncakeDistributedStore()
    known = commands(store)

    def answer(what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    answer(store.setup("127.0.0.1", metadata, 64 << 20, 16 << 20, "tcp", "", master))
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        answer(known[name](*arguments))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
