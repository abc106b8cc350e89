"""Who may act now: sessions, fences and epochs on one Redis or Valkey server.

**A session** is one holder's lease on being alive. It is minted at start (an id and a boot nonce, both random), has a
deadline, and is renewed by one small script, whatever it holds. What a holder holds lives and dies with its session.
Names of hosts, processes and workers are kept for people and never compared.

**The authority** is the server, by its own clock: a session lives while its deadline lies in the server's future, its
row is there, nobody has declared it dead, and the data set is in the epoch that it was opened in. A renewal never
creates a session and never shortens one. No instant is ever compared across two machines.

**A holder trusts itself** until (time before sending its last good renewal) + TTL − margin, on a clock of its own
that runs while the machine is suspended. That is earlier than the server's deadline as long as the two clocks run at
about the same rate. After it the holder starts no dispatch until a renewal succeeds.

**What is fenced.** Each grant carries a fence, a number that only grows: over release, deletion, restart, failover
and the loss of the whole data set, since it starts at microseconds and jumps to them with each epoch. Each write of a
holder is compared with the stored fence by the script that makes it, so that a holder which slept through the end of
its session changes nothing when it wakes. Only the writes to this server are fenced: most providers check no fence.

**An epoch** is one life of the data set. Another run of a server (a restart, a failover) begins a new one, because
what was acknowledged may be lost with the old. Each new connection settles this before any command goes over it.

**How each failure falls**

- A reply is lost: the identical command is sent again; each script answers as before and changes nothing more.
- The server refuses for now (loading, busy, full, read-only): nothing ran; the command is repeated until patience is
  over.
- The server is away: calls wait; the holder goes on until its own deadline, then stands still. That is not a loss.
- The server says `lost` or `epoch`: the session has ended for ever; its holder opens another, with nothing in it.
- The server is full: renewing, closing and a new epoch need no memory; opening is refused.
- The script cache is flushed: the script is loaded again.
- A caller is cancelled: what was sent runs, nobody hears of it, and no other caller gets its reply.
- A holder dies: its deadline passes, and whoever sweeps first takes up what it held.

**What cannot be promised**

- That a dead holder is told from a slow one. A short TTL ends live sessions, a long one finds deaths late; safety
  rests on the fence and on the mark before dispatch, never on the TTL.
- That nothing happens between the last look at one's own trust and the first byte on the wire. The margin makes it
  unlikely; a pause of any length in that gap defeats it.
- That an acknowledged write survives a failover, or a crash without `appendfsync always`. All of the above holds for
  the history that survived; the epoch makes the loss visible, not undone.
"""
