#!/bin/sh
# Two processes lock folders by lock documents as in 2015. Each lock has an owner and expires after two seconds.
# Usage: examples/lock_documents.sh [http://127.0.0.1:9200]
set -eu
url=${1:-http://127.0.0.1:9200}
# As a process: its name, the method, the path, the body.
as() { curl -sS -H 'content-type: application/json' -H "X-Opaque-Id: $1" -X "$2" "$url/locks-example$3" -d "${4:-}"; echo; }
share='{"upsert": {"lock_type": "shared", "lock_count": 1}, "script":
  "if (ctx._source.lock_type == '\''exclusive'\'') { throw new IllegalStateException('\''held'\'') } ctx._source.lock_count++"}'
leave='{"script": "if (--ctx._source.lock_count == 0) { ctx.op = '\''delete'\'' }"}'

curl -sS -X DELETE "$url/locks-example?ignore_unavailable=true" >/dev/null
as none PUT '' '{"settings": {"pleach": {"lock_index": true, "lock_ttl": "2s"}}}'

echo "# process a takes a shared lock on a folder and an exclusive lock on a file in it; b shares the folder too"
as a POST /_update/%2Fmara "$share"
as a PUT /_create/%2Fmara%2Flist.txt '{"lock_type": "exclusive"}'
as b POST /_update/%2Fmara "$share"
echo "# b cannot lock the whole folder while a shares it, and cannot free the lock of a"
as b PUT /_create/%2Fmara '{"lock_type": "exclusive"}'
as b DELETE /_doc/%2Fmara%2Flist.txt
curl -sS "$url/_cat/locks?v"
echo "# b gives its share back, and a dies: two seconds later its locks have expired, and b takes the folder"
as b POST /_update/%2Fmara "$leave"
sleep 3
as b PUT /_create/%2Fmara '{"lock_type": "exclusive"}'
echo "# a wakes up; it cannot free the lock that is now b's"
as a DELETE /_doc/%2Fmara
test "$(curl -sS "$url/locks-example/_source/%2Fmara")" = '{"lock_type": "exclusive"}'
as b DELETE /_doc/%2Fmara
