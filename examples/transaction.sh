#!/bin/sh
# A transaction over several requests. It reads one moment and its own writes. It commits if nobody changed what it read or wrote.
# Usage: examples/transaction.sh [http://127.0.0.1:9200]
set -eu
url=${1:-http://127.0.0.1:9200}
send() { curl -sS -H 'content-type: application/json' -X "$1" "$url$2" -d "${3:-}"; echo; }
begin() { curl -sS -X POST "$url/_transaction/_begin?keep_alive=2m" | sed -n 's/.*"id":"\([^"]*\)".*/\1/p'; }

curl -sS -X DELETE "$url/orders-example,stock-example?ignore_unavailable=true" >/dev/null
send PUT '/stock-example/_doc/apple?refresh=true' '{"left": 3}' >/dev/null

echo "# an order is put together over several requests"
tx=$(begin)
send GET "/stock-example/_doc/apple?transaction=$tx&filter_path=_source"
send POST "/stock-example/_update/apple?transaction=$tx" '{"script": {"source": "ctx._source.left -= 2"}}'
send PUT "/orders-example/_doc/7?transaction=$tx" '{"of": "apple", "count": 2}'
echo "# its own searches see the order, those of others do not"
send GET "/orders-example/_search?transaction=$tx&filter_path=hits.total"
send GET "/orders-example/_search?filter_path=error.type"
echo "# the commit writes all of it or nothing; asked again, it answers the same"
send POST "/_transaction/$tx/_commit?refresh=true&filter_path=committed,commit_seq"
send POST "/_transaction/$tx/_commit?filter_path=committed,commit_seq,replayed"

echo "# two transactions take the last apple: the second commit is refused and names the document that changed"
one=$(begin)
two=$(begin)
for tx in $one $two; do
  send POST "/stock-example/_update/apple?transaction=$tx" '{"script": {"source": "ctx._source.left -= 1"}}' >/dev/null
done
send POST "/_transaction/$one/_commit?filter_path=committed"
send POST "/_transaction/$two/_commit?filter_path=error.type,error.moved,retryable"
test "$(curl -sS "$url/stock-example/_source/apple")" = '{"left":0}'
