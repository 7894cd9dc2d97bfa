// What a program does with go-elasticsearch 8: the bulk indexer, typed answers, typed errors, scroll, statistics.
//
// Takes the address of a server; ends with 1 at the first answer that is not what it should be.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/elastic/go-elasticsearch/v8"
	"github.com/elastic/go-elasticsearch/v8/esutil"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/search"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/refresh"
)

const docs = 100

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must(holds bool, said ...any) {
	if !holds {
		log.Fatal(said...)
	}
}

// refused gives the typed error of a call that has to be refused.
func refused(err error, status int) types.ErrorCause {
	var typed *types.ElasticsearchError
	must(errors.As(err, &typed), "no typed error: ", err)
	must(typed.Status == status, typed)
	return typed.ErrorCause
}

func main() {
	config := elasticsearch.Config{Addresses: []string{os.Args[1]}}
	plain, err := elasticsearch.NewClient(config)
	check(err)
	client, err := elasticsearch.NewTypedClient(config)
	check(err)
	ctx := context.Background()

	info, err := client.Info().Do(ctx)
	check(err)
	must(strings.HasPrefix(info.Version.Int, "8."), info.Version.Int)
	mapping := `{"settings":{"number_of_replicas":0},"mappings":{"properties":{"title":{"type":"text"},"pages":{"type":"integer"}}}}`
	_, err = client.Indices.Create("books").Raw(strings.NewReader(mapping)).Do(ctx)
	check(err)
	_, err = client.Indices.Create("books").Do(ctx)
	must(refused(err, 400).Type == "resource_already_exists_exception", err)

	indexer, err := esutil.NewBulkIndexer(esutil.BulkIndexerConfig{Client: plain, Index: "books", NumWorkers: 2, Refresh: "true"})
	check(err)
	for n := range docs {
		body, _ := json.Marshal(map[string]any{"title": fmt.Sprintf("Volume %d of the sea", n), "pages": n})
		check(indexer.Add(ctx, esutil.BulkIndexerItem{Action: "index", DocumentID: strconv.Itoa(n), Body: bytes.NewReader(body)}))
	}
	check(indexer.Close(ctx))
	must(indexer.Stats().NumFlushed == docs, indexer.Stats())

	one, err := client.Get("books", "7").Do(ctx)
	check(err)
	must(one.Found && strings.Contains(string(one.Source_), `"pages":7`), string(one.Source_))
	query := `{"query":{"match":{"title":"sea"}},"aggs":{"most":{"max":{"field":"pages"}}},"sort":[{"pages":"desc"}],"size":3}`
	found, err := client.Search().Index("books").Raw(strings.NewReader(query)).Do(ctx)
	check(err)
	must(found.Hits.Total.Value == docs && *found.Hits.Hits[0].Id_ == "99", found)
	most := found.Aggregations["most"]
	text, _ := json.Marshal(most)
	must(strings.Contains(string(text), "99"), string(text))

	page, err := client.Search().Index("books").Scroll("1m").Request(&search.Request{Size: new(int)}).Raw(strings.NewReader(`{"size":60}`)).Do(ctx)
	check(err)
	rest, err := client.Scroll().ScrollId(*page.ScrollId_).Scroll("1m").Do(ctx)
	check(err)
	must(len(page.Hits.Hits)+len(rest.Hits.Hits) == docs, len(rest.Hits.Hits))

	_, err = client.Update("books", "1").Raw(strings.NewReader(`{"doc":{"pages":500}}`)).Refresh(refresh.True).Do(ctx)
	check(err)
	_, err = client.Search().Index("none").Do(ctx)
	cause := refused(err, 404)
	must(cause.Type == "index_not_found_exception" && string(cause.Metadata["index_uuid"]) == `"_na_"`, cause)
	gone, err := client.DeleteByQuery("books").Raw(strings.NewReader(`{"query":{"range":{"pages":{"lt":50}}}}`)).Refresh(true).Do(ctx)
	check(err)
	must(*gone.Deleted == 49, *gone.Deleted)

	rows, err := client.Cat.Indices().Index("books").H("index", "docs.count").Do(ctx)
	check(err)
	must(len(rows) == 1 && *rows[0].DocsCount == "51", rows)
	stats, err := client.Nodes.Stats().Do(ctx)
	check(err)
	for _, node := range stats.Nodes {
		must(*node.Fs.Total.AvailableInBytes > 0 && *node.ThreadPool["search"].Completed > 0, "no figures")
	}
	_, err = client.Nodes.Info().Do(ctx)
	check(err)
	health, err := client.Cluster.Health().Do(ctx)
	check(err)
	must(health.UnassignedPrimaryShards == 0, health)
	tasks, err := client.Tasks.List().Do(ctx)
	check(err)
	must(len(tasks.Nodes) == 1, tasks)
	_, err = client.Indices.Delete("books").Do(ctx)
	check(err)
	fmt.Println("steps with go-elasticsearch", elasticsearch.Version)
}
