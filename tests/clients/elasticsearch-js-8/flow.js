// What a program does with the JavaScript client 8: helpers, typed errors, scroll and point in time, statistics.
//
// Takes the address of a server; ends with 1 at the first answer that is not what it should be.

import assert from 'node:assert/strict'
import { Client, errors } from '@elastic/elasticsearch'

const client = new Client({ node: process.argv[2], maxRetries: 0 })
const docs = 150

async function fails (status, call) {
  try {
    await call
  } catch (error) {
    assert.ok(error instanceof errors.ResponseError, String(error))
    assert.equal(error.statusCode, status)
    return error.body.error
  }
  assert.fail('it was not refused')
}

const info = await client.info()
assert.match(info.version.number, /^8\./)
await client.indices.create({
  index: 'books',
  settings: { number_of_replicas: 0 },
  mappings: { properties: { title: { type: 'text' }, genre: { type: 'keyword' }, pages: { type: 'integer' } } }
})
const again = await fails(400, client.indices.create({ index: 'books' }))
assert.equal(again.type, 'resource_already_exists_exception')

const datasource = Array.from({ length: docs }, (_, n) => ({ title: `Volume ${n} of the sea`, genre: ['poetry', 'drama'][n % 2], pages: n }))
const done = await client.helpers.bulk({
  datasource,
  onDocument: doc => ({ index: { _index: 'books', _id: String(doc.pages) } }),
  refreshOnCompletion: true
})
assert.equal(done.successful, docs)
const twice = await client.bulk({ operations: [{ create: { _index: 'books', _id: '1' } }, { pages: 0 }] })
assert.equal(twice.errors, true)
assert.equal(twice.items[0].create.error.type, 'version_conflict_engine_exception')
assert.ok(twice.items[0].create.error.index_uuid.length > 5)

assert.deepEqual((await client.get({ index: 'books', id: '7' }))._source, datasource[7])
await fails(404, client.get({ index: 'books', id: 'none' }))
const found = await client.search({
  index: 'books',
  query: { bool: { must: { match: { title: 'sea' } }, filter: { range: { pages: { lt: 20 } } } } },
  aggs: { genres: { terms: { field: 'genre' }, aggs: { most: { max: { field: 'pages' } } } } },
  sort: [{ pages: 'desc' }],
  profile: true
})
assert.equal(found.hits.total.value, 20)
assert.equal(found.hits.hits[0]._source.pages, 19)
assert.deepEqual(found.aggregations.genres.buckets.map(one => one.most.value).sort(), [18, 19])
assert.ok('next_doc_count' in found.profile.shards[0].searches[0].query[0].breakdown)

let seen = 0
for await (const page of client.helpers.scrollSearch({ index: 'books', size: 40 })) seen += page.documents.length
assert.equal(seen, docs)
const pit = await client.openPointInTime({ index: 'books', keep_alive: '1m' })
const page = await client.search({ pit: { id: pit.id }, size: 10, sort: [{ pages: 'asc' }] })
const next = await client.search({ pit: { id: page.pit_id }, size: 10, sort: [{ pages: 'asc' }], search_after: page.hits.hits[9].sort })
assert.equal(next.hits.hits[0]._source.pages, 10)
await client.closePointInTime({ id: pit.id })

assert.equal((await client.update({ index: 'books', id: '1', doc: { genre: 'novel' }, refresh: true })).result, 'updated')
const stale = await fails(409, client.index({ index: 'books', id: '1', document: {}, if_seq_no: 0, if_primary_term: 99 }))
assert.equal(stale.type, 'version_conflict_engine_exception')
const missing = await fails(404, client.search({ index: 'none' }))
assert.equal(missing.index_uuid, '_na_')
assert.equal((await client.deleteByQuery({ index: 'books', query: { term: { genre: 'drama' } }, refresh: true })).deleted, 74)

const rows = await client.cat.indices({ index: 'books', format: 'json', h: 'index,docs.count,get.missing_total' })
assert.deepEqual(rows, [{ index: 'books', 'docs.count': String(docs - 74), 'get.missing_total': '1' }])
// Without a format the media type that this client accepts decides.
const tables = await client.transport.request({ method: 'GET', path: '/_cat/health' },
  { headers: { accept: 'application/vnd.elasticsearch+json; compatible-with=8' } })
assert.equal(tables[0].status, 'green')
const [node] = Object.values((await client.nodes.stats()).nodes)
assert.ok(node.fs.data[0].available_in_bytes > 0)
assert.ok(node.thread_pool.write.completed > 0)
const [listed] = Object.values((await client.tasks.list({ actions: 'cluster:monitor/tasks/lists' })).nodes)
assert.equal(Object.keys(listed.tasks).length, 1)
const health = await client.cluster.health({ index: 'books' })
assert.equal(health.unassigned_primary_shards, 0)
await client.indices.delete({ index: 'books' })
await client.close()
console.log('steps with @elastic/elasticsearch 8')
