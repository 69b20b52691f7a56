// Drives `avfs serve` with E2B's SDK for JavaScript, unmodified, and holds each answer against what the SDK promises.
//
//     e2b_client.mjs [PART]…
//
// The SDK finds the server by its own variables: E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL. Ends with the first
// expectation that does not hold.

import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import {
  CommandExitError, FileNotFoundError, FileType, FilesystemEventType, InvalidArgumentError, NotFoundError, Sandbox,
  SandboxNotFoundError, TimeoutError,
} from 'e2b'

// With letters that have a meaning in addresses.
const METADATA = { of: 'tests', run: `a b=c&${randomUUID()}` }

async function eventually(holds, what) {
  const until = Date.now() + 60_000
  while (!(await holds())) {
    assert.ok(Date.now() < until, what)
    await wait(50)
  }
}

async function collect(paginator) {
  const all = []
  while (paginator.hasNext) all.push(...(await paginator.nextItems()))
  return all
}

const parts = {
  async sandboxes(sandbox) {
    const info = await sandbox.getInfo()
    assert.equal(info.sandboxId, sandbox.sandboxId)
    assert.equal(info.templateId, 'base')
    assert.deepEqual(info.metadata, METADATA)
    assert.equal(info.state, 'running')
    const seconds = (info.endAt - info.startedAt) / 1000
    assert.ok(250 < seconds && seconds < 350, `${seconds} seconds`)
    assert.ok(await sandbox.isRunning())

    await sandbox.setTimeout(1_000_000)
    const later = await sandbox.getInfo()
    assert.ok(Math.abs(later.endAt - later.startedAt - 1_000_000) < 100_000)

    const listed = await collect(Sandbox.list({ query: { metadata: { run: METADATA.run } } }))
    assert.deepEqual(listed.map((one) => one.sandboxId), [sandbox.sandboxId])
    const two = await Promise.all([Sandbox.create({ timeoutMs: 60_000 }), Sandbox.create({ timeoutMs: 60_000 })])
    const seen = (await collect(Sandbox.list({ limit: 1 }))).map((one) => one.sandboxId)
    assert.equal(new Set(seen).size, seen.length)
    for (const one of two) assert.ok(seen.includes(one.sandboxId))

    assert.equal(await two[0].kill(), true)
    assert.equal(await two[0].kill(), false)
    assert.equal(await two[0].isRunning(), false)
    await assert.rejects(two[0].commands.run('true'))
    await assert.rejects(Sandbox.connect(two[0].sandboxId), SandboxNotFoundError)
    await two[1].setTimeout(0)
    await eventually(async () => !(await two[1].isRunning()), 'its time is over')

    const again = await Sandbox.connect(sandbox.sandboxId)
    assert.equal((await again.commands.run('echo same')).stdout, 'same\n')
    await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }))
  },

  async commands(sandbox) {
    const ran = await sandbox.commands.run('echo out; echo err >&2')
    assert.deepEqual([ran.stdout, ran.stderr, ran.exitCode], ['out\n', 'err\n', 0])
    assert.equal((await sandbox.commands.run('pwd')).stdout, '/home/user\n')
    assert.equal((await sandbox.commands.run('pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
    assert.equal((await sandbox.commands.run('echo $A-$OF', { envs: { A: 'é b' } })).stdout, 'é b-sandbox\n')
    await assert.rejects(sandbox.commands.run('echo no; exit 7'), (error) => {
      assert.ok(error instanceof CommandExitError)
      assert.deepEqual([error.exitCode, error.stdout], [7, 'no\n'])
      return true
    })
    const heard = []
    await sandbox.commands.run('printf a; sleep 0.2; printf b >&2', {
      onStdout: (text) => { heard.push(text) },
      onStderr: (text) => { heard.push(text) },
    })
    assert.deepEqual(heard, ['a', 'b'])
    const large = (await sandbox.commands.run("head -c 300000 /dev/zero | tr '\\0' x")).stdout
    assert.equal(large, 'x'.repeat(300_000))
    await assert.rejects(sandbox.commands.run('sleep 60', { timeoutMs: 1000 }), TimeoutError)
  },

  async background(sandbox) {
    const handle = await sandbox.commands.run('echo begun; sleep 300', { background: true })
    const running = (await sandbox.commands.list()).find((one) => one.pid === handle.pid)
    assert.ok(running.args.join(' ').includes('sleep 300'), running)
    await handle.disconnect()
    let told = ''
    const again = await sandbox.commands.connect(handle.pid, { onStdout: (text) => { told += text } })
    await eventually(() => told === 'begun\n', 'what it wrote is told to the next client')
    assert.equal(await sandbox.commands.kill(handle.pid), true)
    await assert.rejects(again.wait(), CommandExitError)
    assert.equal(await sandbox.commands.kill(handle.pid), false)
    await assert.rejects(sandbox.commands.connect(999_999), NotFoundError)

    const cat = await sandbox.commands.run('cat', { background: true, stdin: true })
    await sandbox.commands.sendStdin(cat.pid, 'Zeile ü\n')
    await eventually(() => cat.stdout === 'Zeile ü\n', 'its input comes back')
    await sandbox.commands.sendStdin(cat.pid, 'last')
    await sandbox.commands.closeStdin(cat.pid)
    const done = await cat.wait()
    assert.deepEqual([done.exitCode, done.stdout], [0, 'Zeile ü\nlast'])
  },

  async terminal(sandbox) {
    let shown = ''
    const show = (bytes) => { shown += Buffer.from(bytes).toString() }
    const input = (text) => new TextEncoder().encode(text)
    const pty = await sandbox.pty.create({ cols: 99, rows: 33, onData: show, timeoutMs: 0 })
    await sandbox.pty.sendInput(pty.pid, input("stty size; echo en''d\n"))
    await eventually(() => shown.includes('\nend'), shown)
    assert.ok(shown.includes('33 99'), shown)
    await sandbox.pty.resize(pty.pid, { cols: 120, rows: 40 })
    await pty.disconnect()
    shown = ''
    const again = await sandbox.pty.connect(pty.pid, { onData: show, timeoutMs: 0 })
    await sandbox.pty.sendInput(pty.pid, input("stty size; echo do''ne\n"))
    await eventually(() => shown.includes('\ndone'), shown)
    assert.ok(shown.includes('40 120'), shown)
    await sandbox.pty.sendInput(pty.pid, input('exit\n'))
    assert.equal((await again.wait()).exitCode, 0)
    const other = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} })
    assert.equal(await sandbox.pty.kill(other.pid), true)
  },

  async files(sandbox) {
    const { files } = sandbox
    const written = await files.write('a/b.txt', 'one ü\n')
    assert.deepEqual([written.name, written.path], ['b.txt', '/home/user/a/b.txt'])
    for (const path of ['a/b.txt', '/home/user/a/b.txt', './a/../a/b.txt']) {
      assert.equal(await files.read(path), 'one ü\n')
    }
    assert.equal((await sandbox.commands.run('cat a/b.txt')).stdout, 'one ü\n')
    const every = Uint8Array.from({ length: 1_000_000 }, (_, index) => index * 7)
    await files.write('bytes', every.buffer)
    assert.deepEqual(await files.read('bytes', { format: 'bytes' }), every)
    await files.write('bytes', new Blob([every.subarray(1)]))
    assert.equal((await files.read('bytes', { format: 'blob' })).size, every.length - 1)
    const hash = createHash('sha256')
    for await (const piece of await files.read('bytes', { format: 'stream' })) hash.update(piece)
    assert.equal(hash.digest('hex'), createHash('sha256').update(every.subarray(1)).digest('hex'))
    const names = ['x.txt', 'q "u" %.txt', 'deep/er/ü.txt']
    const many = await files.writeFiles(names.map((name) => ({ path: name, data: name })))
    assert.deepEqual(many.map((one) => one.path), names.map((name) => `/home/user/${name}`))
    for (const name of names) assert.equal(await files.read(name), name)
    await files.write('packed.txt', 'again and '.repeat(20_000), { gzip: true })
    assert.equal((await files.read('packed.txt', { gzip: true })).length, 200_000)

    assert.ok((await files.exists('a/b.txt')) && !(await files.exists('a/c.txt')))
    await assert.rejects(files.read('no.txt'), FileNotFoundError)
    await assert.rejects(files.list('no'), FileNotFoundError)
    await assert.rejects(files.read('/etc/passwd'), InvalidArgumentError)
    await assert.rejects(files.write('../../../tmp/x', 'x'), InvalidArgumentError)
    await assert.rejects(files.read('a/b.txt', { user: 'root' }))

    const info = await files.getInfo('a/b.txt')
    assert.deepEqual([info.name, info.path, info.size, info.type], ['b.txt', '/home/user/a/b.txt', 7, FileType.FILE])
    assert.deepEqual([info.permissions, info.owner], ['-rw-r--r--', 'user'])
    assert.ok(Math.abs(info.modifiedTime - Date.now()) < 600_000)
    assert.equal(await files.makeDir('new/dir'), true)
    assert.equal(await files.makeDir('new/dir'), false)
    assert.equal((await files.rename('x.txt', 'new/dir/y.txt')).path, '/home/user/new/dir/y.txt')
    const deep = (await files.list('new', { depth: 2 })).map((one) => [one.path, one.type])
    assert.deepEqual(deep, [['/home/user/new/dir', FileType.DIR], ['/home/user/new/dir/y.txt', FileType.FILE]])
    await files.remove('new')
    assert.equal(await files.exists('new'), false)
  },

  async watching(sandbox) {
    await sandbox.files.makeDir('watched/below')
    const events = []
    let isOver = false
    const watch = await sandbox.files.watchDir('watched', (event) => { events.push(event) }, {
      recursive: true, timeoutMs: 0, onExit: () => { isOver = true },
    })
    const has = (name, type) => events.some((event) => event.name === name && event.type === type)
    await sandbox.files.write('watched/new.txt', '1')
    await eventually(() => has('new.txt', FilesystemEventType.CREATE), 'what is new')
    await sandbox.commands.run('echo 2 >watched/below/deep.txt')
    await eventually(() => has('below/deep.txt', FilesystemEventType.WRITE), 'what is written below')
    await sandbox.files.remove('watched/new.txt')
    await eventually(() => has('new.txt', FilesystemEventType.REMOVE), 'what is gone')
    await watch.stop()
    await eventually(() => isOver, 'the end of the watch')
    await assert.rejects(sandbox.files.watchDir('nowhere', () => {}), FileNotFoundError)
  },

  async signed(sandbox) {
    await sandbox.files.write('signed.txt', 'signed')
    const text = async (url) => {
      const answer = await fetch(url)
      return answer.ok ? await answer.text() : answer.status
    }
    assert.equal(await text(await sandbox.downloadUrl('signed.txt')), 'signed')
    const url = await sandbox.downloadUrl('signed.txt', { useSignatureExpiration: 60 })
    assert.equal(await text(url), 'signed')
    assert.equal(await text(url.replace('signed.txt', 'bytes')), 401)
    assert.equal(await text(url.replace(/&?signature_expiration=\d+/, '')), 401)
    assert.equal(await text(await sandbox.downloadUrl('signed.txt', { useSignatureExpiration: -10 })), 401)
    const form = new FormData()
    form.append('file', new Blob(['by form']), 'ignored')
    const sent = await fetch(await sandbox.uploadUrl('uploaded.txt'), { method: 'POST', body: form })
    assert.equal(sent.status, 200)
    assert.equal(await sandbox.files.read('uploaded.txt'), 'by form')
    const wrong = await fetch(await sandbox.downloadUrl('uploaded.txt'), { method: 'POST', body: form })
    assert.equal(wrong.status, 401)
  },

  async pausing(sandbox) {
    const counting = await sandbox.commands.run(
      'i=0; while :; do i=$((i+1)); echo $i >count; sleep 0.05; done', { background: true })
    await eventually(() => sandbox.files.exists('count'), 'it counts')
    assert.equal(await sandbox.pause(), true)
    assert.equal(await sandbox.isRunning(), false)
    assert.equal((await Sandbox.getInfo(sandbox.sandboxId)).state, 'paused')
    const paused = await collect(Sandbox.list({ query: { state: ['paused'] } }))
    assert.ok(paused.some((one) => one.sandboxId === sandbox.sandboxId))
    await assert.rejects(sandbox.commands.run('true'))
    await sandbox.connect({ timeoutMs: 300_000 })
    const first = await sandbox.files.read('count')
    await eventually(async () => ![first, ''].includes(await sandbox.files.read('count')), 'its processes go on')
    await sandbox.commands.kill(counting.pid)
  },

  async ports(sandbox) {
    const serving = await sandbox.commands.run('python3 -m http.server 8001 --directory /home/user', { background: true })
    await sandbox.files.write('served.txt', 'by name')
    const { hostname, port } = new URL(process.env.E2B_SANDBOX_URL)
    // The name is one of this machine, which not every program can look up.
    const ask = async () => {
      const headers = { host: sandbox.getHost(8001) }
      const [answer] = await once(request({ hostname, port, path: '/served.txt', headers }).end(), 'response')
      return [answer.statusCode, (await answer.toArray()).join('')]
    }
    await eventually(async () => (await ask())[0] === 200, 'a port has a name')
    assert.deepEqual(await ask(), [200, 'by name'])
    await serving.kill()
  },

  async others(sandbox) {
    const last = (await sandbox.getMetrics()).at(-1)
    assert.ok(last.cpuCount >= 1 && last.memTotal > last.memUsed && last.diskUsed > 0, last)
    // No policy grants it, and nobody is asked in a test.
    await assert.rejects(sandbox.updateNetwork({ allowOut: ['nowhere.invalid'] }), /approv/)
    await sandbox.updateNetwork({})
    const metadata = { author: 'ann' }
    assert.deepEqual((await sandbox.files.write('with.txt', 'x', { metadata })).metadata, metadata)
    assert.deepEqual((await sandbox.files.getInfo('with.txt')).metadata, metadata)
    const wakes = await Sandbox.create({ timeoutMs: 60_000, lifecycle: { onTimeout: 'pause', autoResume: true } })
    await wakes.files.write('kept.txt', 'kept')
    await wakes.setTimeout(0)
    await eventually(async () => !(await wakes.isRunning()), 'its time is over')
    assert.equal((await wakes.getInfo()).state, 'paused')
    assert.equal(await wakes.files.read('kept.txt'), 'kept')
    assert.equal(await wakes.kill(), true)
    await assert.rejects(Sandbox.create({ mcp: { exa: { apiKey: 'x' } } }), /docs\/e2b\.md/)
  },

  async copies(sandbox) {
    await sandbox.files.write('kept.txt', 'before')
    const snapshot = await sandbox.createSnapshot()
    await sandbox.files.write('kept.txt', 'after')
    const copy = await Sandbox.create(snapshot.snapshotId, { timeoutMs: 60_000 })
    assert.equal(await copy.files.read('kept.txt'), 'before')
    const listed = await collect(Sandbox.listSnapshots({ sandboxId: sandbox.sandboxId }))
    assert.deepEqual(listed.map((one) => one.snapshotId), [snapshot.snapshotId])
    assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
    assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false)
    await copy.kill()
    const named = await sandbox.createSnapshot({ name: 'named:v1' })
    assert.deepEqual(named.names, ['named:v1'])
    assert.equal(await Sandbox.deleteSnapshot('named:v1'), true)

    const forks = await sandbox.fork({ count: 3 })
    await Promise.all(forks.map((fork, number) => fork.files.write('kept.txt', `${number}`)))
    const kept = await Promise.all(forks.map((fork) => fork.files.read('kept.txt')))
    assert.deepEqual(kept, ['0', '1', '2'])
    assert.equal(await sandbox.files.read('kept.txt'), 'after')
    await Promise.all(forks.map((fork) => fork.kill()))
  },
}

const wanted = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(parts)
const sandbox = await Sandbox.create({ timeoutMs: 300_000, metadata: METADATA, envs: { OF: 'sandbox' } })
try {
  for (const name of wanted) {
    await parts[name](sandbox).catch((error) => {
      throw new Error(`in ${name}`, { cause: error })
    })
  }
} finally {
  assert.equal(await sandbox.kill(), true)
}
const { version } = JSON.parse(readFileSync(new URL('node_modules/e2b/package.json', import.meta.url)))
console.log(`e2b ${version} for JavaScript: ${wanted.join(', ')}`)
