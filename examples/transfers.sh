#!/bin/sh
# Accounts and transfers: a change of two documents, a repeated request, and a condition that does not hold.
# Usage: examples/transfers.sh [http://127.0.0.1:9200]
set -eu
url=${1:-http://127.0.0.1:9200}
post() { curl -sS -H 'content-type: application/json' -X POST "$url$1" -d "$2"; echo; }
put() { curl -sS -H 'content-type: application/json' -X PUT "$url$1" -d "$2" >/dev/null; }

curl -sS -X DELETE "$url/accounts-example?ignore_unavailable=true" >/dev/null
put /accounts-example/_doc/alice '{"balance": 100}'
put /accounts-example/_doc/bob '{"balance": 0}'

key=transfer-$$
transfer='{"operations": [
  {"update": {"_index": "accounts-example", "_id": "alice", "script": {"source": "ctx._source.balance -= params.n", "params": {"n": 30}}}},
  {"update": {"_index": "accounts-example", "_id": "bob", "script": {"source": "ctx._source.balance += params.n", "params": {"n": 30}}}}]}'

echo "# thirty from alice to bob"
post "/_transaction?idempotency_key=$key" "$transfer"
echo "# the same request again, as after a lost answer: the answer is the first one, and nothing changes"
post "/_transaction?idempotency_key=$key" "$transfer"
echo "# carol has no account: nothing changes"
post /_transaction '{"if": [{"index": "accounts-example", "id": "carol", "exists": true}],
  "operations": [{"update": {"_index": "accounts-example", "_id": "alice", "doc": {"balance": 0}}}]}'

echo "# both balances"
curl -sS "$url/accounts-example/_doc/alice?filter_path=_source"; echo
curl -sS "$url/accounts-example/_doc/bob?filter_path=_source"; echo
test "$(curl -sS "$url/accounts-example/_source/alice")" = '{"balance":70}'
test "$(curl -sS "$url/accounts-example/_source/bob")" = '{"balance":30}'
