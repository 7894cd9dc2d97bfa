#!/bin/sh
# One client locks a directory, and another is refused. A write after the end of a lock changes nothing.
# Usage: examples/locks.sh [http://127.0.0.1:9200]
set -eu
url=${1:-http://127.0.0.1:9200}
send() { curl -sS -H 'content-type: application/json' -X "$1" "$url$2" -d "${3:-}"; echo; }
id_of() { sed -n 's/.*"id":"\(n1:[0-9a-z]*\)".*/\1/p' | head -n 1; }

curl -sS -X DELETE "$url/fs-example?ignore_unavailable=true" >/dev/null
send PUT /fs-example '{"settings": {"pleach": {"locks": "enforced", "lock_path": ["path", "name"]}}}'
send PUT /fs-example/_doc/1 '{"path": "/clinton/projects", "name": "README.txt", "text": "one"}'

echo "# a client locks a directory"
lock=$(send POST /_lock '{"owner": "renamer-7", "keep_alive": "1s", "targets": [{"index": "fs-example", "path": "/clinton/projects"}]}' | id_of)
echo "lock $lock"
echo "# another client may neither write below it nor lock a directory above it"
send PUT /fs-example/_doc/1 '{"path": "/clinton/projects", "name": "README.txt", "text": "stolen"}'
send POST /_lock '{"owner": "other", "targets": [{"index": "fs-example", "path": "/clinton"}]}'
echo "# the owner of the lock may write"
send PUT "/fs-example/_doc/1?lock=$lock" '{"path": "/clinton/projects", "name": "README.txt", "text": "two"}'
echo "# the other client waits; the lease of the first ends after a second, and its next write is refused"
other=$(send POST '/_lock?timeout=10s' '{"owner": "other", "targets": [{"index": "fs-example", "path": "/clinton"}]}' | id_of)
send PUT "/fs-example/_doc/1?lock=$lock" '{"path": "/clinton/projects", "name": "README.txt", "text": "three"}'
send DELETE "/_lock/$other"
test "$(curl -sS "$url/fs-example/_source/1?_source=text")" = '{"text":"two"}'
