// What a program does with Elasticsearch's REST clients for Java 7.17: requests and answers are decoded into classes, errors
// into exceptions whose text is built from their parts.
//
// Takes host and port of a server; ends with 1 at the first answer that is not what it should be.

import java.util.Map;
import org.apache.http.HttpHost;
import org.apache.http.util.EntityUtils;
import org.elasticsearch.ElasticsearchException;
import org.elasticsearch.ElasticsearchStatusException;
import org.elasticsearch.action.admin.cluster.health.ClusterHealthRequest;
import org.elasticsearch.action.admin.cluster.node.tasks.list.ListTasksRequest;
import org.elasticsearch.action.admin.indices.delete.DeleteIndexRequest;
import org.elasticsearch.action.bulk.BulkRequest;
import org.elasticsearch.action.delete.DeleteRequest;
import org.elasticsearch.action.get.GetRequest;
import org.elasticsearch.action.index.IndexRequest;
import org.elasticsearch.action.search.ClearScrollRequest;
import org.elasticsearch.action.search.SearchRequest;
import org.elasticsearch.action.search.SearchScrollRequest;
import org.elasticsearch.action.support.WriteRequest.RefreshPolicy;
import org.elasticsearch.action.update.UpdateRequest;
import org.elasticsearch.client.Request;
import org.elasticsearch.client.RequestOptions;
import org.elasticsearch.client.RestClient;
import org.elasticsearch.client.RestHighLevelClient;
import org.elasticsearch.client.core.CountRequest;
import org.elasticsearch.client.indices.CreateIndexRequest;
import org.elasticsearch.xcontent.XContentType;
import org.elasticsearch.core.TimeValue;
import org.elasticsearch.index.query.QueryBuilders;
import org.elasticsearch.index.reindex.DeleteByQueryRequest;
import org.elasticsearch.search.aggregations.AggregationBuilders;
import org.elasticsearch.search.aggregations.bucket.terms.Terms;
import org.elasticsearch.search.builder.SearchSourceBuilder;
import org.elasticsearch.search.sort.SortOrder;

public class Flow {
    static final int DOCS = 100;
    static final RequestOptions PLAIN = RequestOptions.DEFAULT;

    interface Call { void run() throws Exception; }

    static void must(boolean holds, Object said) {
        if (!holds) throw new AssertionError(String.valueOf(said));
    }

    /** The exception of a call that has to be refused; its text must be there to be read. */
    static ElasticsearchException refused(int status, Call call) throws Exception {
        try {
            call.run();
        } catch (ElasticsearchStatusException error) {
            must(error.status().getStatus() == status, error.toString());
            return error;
        }
        throw new AssertionError("it was not refused");
    }

    public static void main(String[] arguments) throws Exception {
        HttpHost host = new HttpHost(arguments[0], Integer.parseInt(arguments[1]), "http");
        try (RestHighLevelClient client = new RestHighLevelClient(RestClient.builder(host))) {
            must(client.info(PLAIN).getVersion().getNumber().startsWith("7."), "another version");
            CreateIndexRequest create = new CreateIndexRequest("books");
            create.source("{\"settings\":{\"number_of_replicas\":0},\"mappings\":{\"properties\":{\"title\":{\"type\":\"text\"},"
                + "\"genre\":{\"type\":\"keyword\"},\"pages\":{\"type\":\"integer\"}}}}", XContentType.JSON);
            must(client.indices().create(create, PLAIN).isAcknowledged(), "not acknowledged");
            refused(400, () -> client.indices().create(create, PLAIN));

            BulkRequest bulk = new BulkRequest().setRefreshPolicy(RefreshPolicy.IMMEDIATE).timeout(TimeValue.timeValueMinutes(2));
            for (int n = 0; n < DOCS; n++) {
                Map<String, Object> book = Map.of("title", "Volume " + n + " of the sea", "genre", n % 2 == 0 ? "poetry" : "drama", "pages", n);
                bulk.add(new IndexRequest("books").id(String.valueOf(n)).source(book));
            }
            must(!client.bulk(bulk, PLAIN).hasFailures(), "the bulk failed");
            BulkRequest twice = new BulkRequest().add(new IndexRequest("books").id("1").create(true).source(Map.of()));
            String failure = client.bulk(twice, PLAIN).getItems()[0].getFailure().getCause().toString();
            must(failure.contains("version_conflict_engine_exception"), failure);

            must(client.get(new GetRequest("books", "7"), PLAIN).getSourceAsMap().get("pages").equals(7), "another document");
            must(!client.exists(new GetRequest("books", "none"), PLAIN), "there is none");
            SearchSourceBuilder source = new SearchSourceBuilder().query(QueryBuilders.matchQuery("title", "sea")).size(3)
                .sort("pages", SortOrder.DESC).aggregation(AggregationBuilders.terms("genres").field("genre"));
            var found = client.search(new SearchRequest("books").source(source), PLAIN);
            must(found.getHits().getTotalHits().value == DOCS && found.getHits().getAt(0).getId().equals("99"), found);
            Terms genres = found.getAggregations().get("genres");
            must(genres.getBucketByKey("drama").getDocCount() == DOCS / 2, found);

            SearchRequest scrolled = new SearchRequest("books").scroll(TimeValue.timeValueMinutes(1)).source(new SearchSourceBuilder().size(60));
            var page = client.search(scrolled, PLAIN);
            var next = client.scroll(new SearchScrollRequest(page.getScrollId()).scroll(TimeValue.timeValueMinutes(1)), PLAIN);
            must(page.getHits().getHits().length + next.getHits().getHits().length == DOCS, next);
            ClearScrollRequest clear = new ClearScrollRequest();
            clear.addScrollId(page.getScrollId());
            must(client.clearScroll(clear, PLAIN).isSucceeded(), "not cleared");

            client.update(new UpdateRequest("books", "1").doc(Map.of("pages", 500)).setRefreshPolicy(RefreshPolicy.IMMEDIATE), PLAIN);
            var conflict = refused(409, () -> client.index(new IndexRequest("books").id("1").setIfSeqNo(0).setIfPrimaryTerm(99).source(Map.of()), PLAIN));
            must(conflict.toString().contains("[books"), conflict);
            var missing = refused(404, () -> client.search(new SearchRequest("none"), PLAIN));
            must(missing.toString().contains("index_not_found_exception"), missing);
            must(missing.getIndex().getUUID().equals("_na_"), missing.getIndex());
            DeleteByQueryRequest byQuery = new DeleteByQueryRequest("books").setQuery(QueryBuilders.termQuery("genre", "drama")).setRefresh(true);
            must(client.deleteByQuery(byQuery, PLAIN).getDeleted() == DOCS / 2, "another count");
            client.delete(new DeleteRequest("books", "0").setRefreshPolicy(RefreshPolicy.IMMEDIATE), PLAIN);
            must(client.count(new CountRequest("books"), PLAIN).getCount() == DOCS / 2 - 1, "another count");

            must(client.cluster().health(new ClusterHealthRequest("books"), PLAIN).getActivePrimaryShards() == 1, "another health");
            must(client.tasks().list(new ListTasksRequest().setDetailed(true), PLAIN).getTasks().size() >= 1, "no task");
            RestClient low = client.getLowLevelClient();
            String rows = EntityUtils.toString(low.performRequest(new Request("GET", "/_cat/indices/books?format=json&h=index,docs.count")).getEntity());
            must(rows.equals("[{\"index\":\"books\",\"docs.count\":\"49\"}]"), rows);
            String stats = EntityUtils.toString(low.performRequest(new Request("GET", "/_nodes/stats")).getEntity());
            must(stats.contains("\"ingest\"") && stats.contains("\"available_in_bytes\""), stats);
            client.indices().delete(new DeleteIndexRequest("books"), PLAIN);
        }
        System.out.println("steps with the REST clients for Java 7.17");
    }
}
