"""What a program of 2015 did with the Python client 2.4: types in every call, scan searches, `fields`, `_percolate`.

Takes the address of a server and fails with a traceback at the first answer that the client does not take or that is not
what it should be.
"""

import collections
import collections.abc
import sys

# The client names a class that Python moved after its time.
for name in ("Mapping", "Iterable"):
    if not hasattr(collections, name):
        setattr(collections, name, getattr(collections.abc, name))

import elasticsearch
from elasticsearch import ConflictError, Elasticsearch, NotFoundError, RequestError, helpers

DOCS = 120
client = Elasticsearch([sys.argv[1]])


def fails(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("%s was not raised" % kind.__name__)


assert client.info()["version"]["number"].startswith("2.")
mapping = {"book": {"properties": {"title": {"type": "string"}, "genre": {"type": "string", "index": "not_analyzed"},
                                   "pages": {"type": "integer"}}}}
assert client.indices.create(index="books", body={"mappings": mapping})["acknowledged"]
assert fails(RequestError, lambda: client.indices.create(index="books")).error == "index_already_exists_exception"
actions = [{"_index": "books", "_type": "book", "_id": str(n),
            "_source": {"title": "Volume %d of the sea" % n, "genre": ["poetry", "drama"][n % 2], "pages": n}}
           for n in range(DOCS)]
assert helpers.bulk(client, actions, refresh=True) == (DOCS, [])
assert client.get(index="books", doc_type="book", id="7")["_source"]["pages"] == 7
assert fails(NotFoundError, lambda: client.get(index="books", doc_type="book", id="x")).status_code == 404
body = {"query": {"filtered": {"query": {"match": {"title": "sea"}}, "filter": {"range": {"pages": {"lt": 10}}}}},
        "aggs": {"genres": {"terms": {"field": "genre"}}}, "fields": ["pages"], "sort": "pages"}
said = client.search(index="books", doc_type="book", body=body)
assert said["hits"]["total"] == 10 and said["hits"]["hits"][3]["fields"]["pages"] == [3], said
assert [one["doc_count"] for one in said["aggregations"]["genres"]["buckets"]] == [5, 5], said
assert len(list(helpers.scan(client, index="books", size=25))) == DOCS
assert client.update(index="books", doc_type="book", id="1", body={"doc": {"pages": 1000}})["_version"] == 2
conflict = fails(ConflictError, lambda: client.index(index="books", doc_type="book", id="1", body={}, version=1))
assert conflict.error == "version_conflict_engine_exception", conflict.info
assert "index_uuid" not in conflict.info["error"], conflict.info
fails(NotFoundError, lambda: client.search(index="none"))
client.index(index="books", doc_type=".percolator", id="q", body={"query": {"match": {"title": "whale"}}}, refresh=True)
found = client.percolate(index="books", doc_type="book", body={"doc": {"title": "the whale"}})
assert [match["_id"] for match in found["matches"]] == ["q"], found
assert "books" in client.cat.indices(h="index")
assert client.count(index="books", doc_type="book")["count"] == DOCS
node, = client.nodes.stats()["nodes"].values()
assert node["fs"]["total"]["total_in_bytes"] > 0 and node["thread_pool"]["search"]["completed"] > 0, node
actions = [{"_op_type": "delete", "_index": "books", "_type": "book", "_id": str(n)} for n in range(DOCS)]
assert helpers.bulk(client, actions, refresh=True)[0] == DOCS
assert client.count(index="books", doc_type="book")["count"] == 0
client.indices.delete(index="books")
print("steps of 2015 with elasticsearch %s" % elasticsearch.__versionstr__)
