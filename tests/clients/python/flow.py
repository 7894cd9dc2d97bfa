"""What a program does with one of today's Python clients: elasticsearch 7.17, 8 and 9, opensearch-py 3.

Takes the address of a server and fails with a traceback at the first answer that the client does not take or that is not
what it should be. Bodies are passed as `body`, which all of them know.
"""

import sys
import time

try:
    import elasticsearch as library
    from elasticsearch import Elasticsearch as Client
    from elasticsearch import helpers

    version = library.__version__[0]
except ImportError:
    import opensearchpy as library
    from opensearchpy import OpenSearch as Client
    from opensearchpy import helpers

    version = None  # OpenSearch

DOCS = 200
client = Client(sys.argv[1])


def fails(kind, call):
    """The error that a call raises, which must be of this class of the client."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def details(error):
    """The `error` object of a refusal, wherever this client keeps the body."""
    body = getattr(error, "body", None) or error.info
    return body["error"]


def total(answer):
    return answer["hits"]["total"]["value"]


def info():
    said = client.info()
    number = int(said["version"]["number"].split(".")[0])
    assert number == (version or 3), said
    assert client.ping()


def create():
    mapping = {
        "properties": {
            "title": {"type": "text"},
            "genre": {"type": "keyword"},
            "pages": {"type": "integer"},
            "published": {"type": "date"},
        }
    }
    said = client.indices.create(index="books", body={"settings": {"number_of_replicas": 0}, "mappings": mapping})
    assert said["acknowledged"]
    assert client.indices.exists(index="books")
    again = fails(library.RequestError if hasattr(library, "RequestError") else library.BadRequestError,
                  lambda: client.indices.create(index="books"))
    assert details(again)["type"] == "resource_already_exists_exception", details(again)
    assert len(details(again)["index_uuid"]) > 5, details(again)
    assert client.indices.get_mapping(index="books")["books"]["mappings"] == mapping


def book(n):
    return {"title": f"Volume {n} of the sea", "genre": ["poetry", "drama", "essay"][n % 3], "pages": 100 + n,
            "published": f"{1900 + n % 100}-03-01"}


def bulk():
    actions = ({"_index": "books", "_id": str(n), "_source": book(n)} for n in range(DOCS))
    assert helpers.bulk(client, actions, chunk_size=50, refresh=True) == (DOCS, [])
    twice = [{"_op_type": "create", "_index": "books", "_id": "0", "_source": {}}]
    kind = helpers.BulkIndexError if hasattr(helpers, "BulkIndexError") else helpers.errors.BulkIndexError
    error = fails(kind, lambda: helpers.bulk(client, twice))
    cause = error.errors[0]["create"]["error"]
    assert cause["type"] == "version_conflict_engine_exception" and len(cause["index_uuid"]) > 5, cause


def read():
    assert client.get(index="books", id="7")["_source"] == book(7)
    assert client.exists(index="books", id="7") and not client.exists(index="books", id="none")
    missing = fails(library.NotFoundError, lambda: client.get(index="books", id="none"))
    assert missing.status_code == 404 if hasattr(missing, "status_code") else missing.meta.status == 404
    docs = client.mget(index="books", body={"ids": ["1", "none"]})["docs"]
    assert [doc["found"] for doc in docs] == [True, False]
    assert client.count(index="books")["count"] == DOCS


def search():
    body = {
        "query": {"bool": {"must": [{"match": {"title": "sea"}}], "filter": [{"range": {"pages": {"lt": 160}}}]}},
        "aggs": {"genres": {"terms": {"field": "genre"}, "aggs": {"pages": {"avg": {"field": "pages"}}}}},
        "sort": [{"pages": "desc"}], "size": 5, "highlight": {"fields": {"title": {}}},
    }
    said = client.search(index="books", body=body)
    assert total(said) == 60 and said["hits"]["hits"][0]["_source"]["pages"] == 159, said
    assert "<em>sea</em>" in said["hits"]["hits"][0]["highlight"]["title"][0]
    buckets = {one["key"]: one for one in said["aggregations"]["genres"]["buckets"]}
    assert buckets["poetry"]["doc_count"] == 20 and buckets["poetry"]["pages"]["value"] == 128.5, buckets
    several = client.msearch(body=[{"index": "books"}, {"size": 0}, {"index": "none"}, {}])["responses"]
    assert total(several[0]) == DOCS and several[1]["error"]["index_uuid"] == "_na_", several


def pages():
    seen = {hit["_id"] for hit in helpers.scan(client, index="books", query={"query": {"match_all": {}}}, size=30)}
    assert len(seen) == DOCS
    if version:
        pit = client.open_point_in_time(index="books", keep_alive="1m")["id"]
    else:
        pit = client.create_pit(index="books", params={"keep_alive": "1m"})["pit_id"]
    seen, after = set(), None
    while True:
        body = {"size": 60, "pit": {"id": pit, "keep_alive": "1m"}, "sort": [{"pages": "asc"}]}
        if after:
            body["search_after"] = after
        hits = client.search(body=body)["hits"]["hits"]
        if not hits:
            break
        seen |= {hit["_id"] for hit in hits}
        after = hits[-1]["sort"]
    assert len(seen) == DOCS
    if version:
        assert client.close_point_in_time(body={"id": pit})["num_freed"] == 1
    else:
        assert client.delete_pit(body={"pit_id": [pit]})["pits"][0]["successful"]


def write():
    said = client.update(index="books", id="1", body={"doc": {"genre": "novel"}})
    assert said["result"] == "updated"
    script = {"source": "ctx._source.pages += params.more", "params": {"more": 5}}
    client.update(index="books", id="1", body={"script": script}, refresh=True)
    now = client.get(index="books", id="1")
    assert now["_source"]["pages"] == 106 and now["_source"]["genre"] == "novel"
    stale = {"if_seq_no": now["_seq_no"] - 1, "if_primary_term": now["_primary_term"]}
    conflict = details(fails(library.ConflictError, lambda: client.index(index="books", id="1", body={}, **stale)))
    assert conflict["type"] == "version_conflict_engine_exception" and conflict["index"] == "books", conflict
    assert len(conflict["index_uuid"]) > 5, conflict
    update = {"query": {"term": {"genre": "drama"}}, "script": {"source": "ctx._source.pages = 1"}}
    assert client.update_by_query(index="books", body=update, refresh=True)["updated"] == 66
    said = client.delete_by_query(index="books", body={"query": {"term": {"pages": 1}}}, refresh=True)
    assert said["deleted"] == 66 and said["failures"] == []
    assert client.delete(index="books", id="0", refresh=True)["result"] == "deleted"
    assert client.count(index="books")["count"] == DOCS - 67


def refusals():
    error = fails(library.NotFoundError, lambda: client.search(index="none"))
    said = details(error)
    assert said["type"] == "index_not_found_exception" and said["index_uuid"] == "_na_", said
    kind = library.RequestError if hasattr(library, "RequestError") else library.BadRequestError
    said = details(fails(kind, lambda: client.search(index="books", body={"query": {"macth": {"title": "x"}}})))
    assert said["type"] == "parsing_exception" and "macth" in said["reason"], said
    said = details(fails(kind, lambda: client.search(index="books", body={"sort": "absent"})))
    assert said["type"] == "search_phase_execution_exception", said
    assert len(said["root_cause"][0]["index_uuid"]) > 5, said


def tables():
    row = client.cat.indices(index="books", format="json", h="index,docs.count,search.query_time,pri.get.total")[0]
    assert row["index"] == "books" and int(row["pri.get.total"]) > 0, row
    assert client.cat.count(index="books", format="json")[0]["count"] == str(DOCS - 67)
    assert client.cat.health(format="json")[0]["status"] == "green"
    pools = {row["name"]: row for row in client.cat.thread_pool(format="json", h="name,completed")}
    assert int(pools["write"]["completed"]) > 0, pools
    assert client.indices.resolve_index(name="boo*")["indices"][0]["name"] == "books"


def statistics():
    node, = client.nodes.stats()["nodes"].values()
    disk = node["fs"]["data"][0]
    assert disk["total_in_bytes"] >= disk["free_in_bytes"] >= disk["available_in_bytes"] > 0, disk
    assert node["breakers"]["in_flight_requests"]["limit_size_in_bytes"] > 0
    assert node["thread_pool"]["search"]["completed"] > 0 and node["ingest"]["total"]["count"] == 0
    node, = client.nodes.info()["nodes"].values()
    assert node["settings"]["path"]["home"] == "." and node["settings"]["cluster"]["election"]["strategy"]
    sums = client.indices.stats(index="books")["_all"]["total"]
    assert sums["get"]["missing_total"] > 0 and sums["search"]["scroll_total"] > 0, sums
    assert client.cluster.health(index="books")["status"] == "green"
    client.cluster.stats()


def tasks():
    action = "cluster:monitor/tasks/lists"
    listed = client.tasks.list(actions=action) if version else client.tasks.list(params={"actions": action})
    node, = listed["nodes"].values()
    assert [task["action"] for task in node["tasks"].values()] == [action]
    copy = {"source": {"index": "books"}, "dest": {"index": "copies"}}
    task = client.reindex(body=copy, wait_for_completion=False)["task"]
    for _ in range(200):
        said = client.tasks.get(task_id=task)
        if said["completed"]:
            break
        time.sleep(0.05)
    assert said["completed"] and said["response"]["created"] == DOCS - 67, said
    assert said["task"]["status"]["created"] == DOCS - 67, said
    client.tasks.cancel(task_id=task)
    client.indices.delete(index="copies")


def drop():
    client.indices.delete(index="books")
    assert not client.indices.exists(index="books")


steps = [info, create, bulk, read, search, pages, write, refusals, tables, statistics, tasks, drop]
for step in steps:
    step()
print(f"{len(steps)} steps with {library.__name__} {library.__versionstr__}")
