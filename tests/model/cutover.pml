/* The cutover of one slot, one key (README.md). A client, one request at a time, through two proxies with mappings
 * of their own; a shim with one worker a proxy; the old master; the new one; dashboard, migrator and operator.
 *
 * Kinds of server:  -DNODE   fence inside the node, leased, then permanent; requests carry an epoch
 *                   -DREDIS  writes paused until the owner record
 *                   (none)   Pika: no fence; a record is received first and applied later by one of two workers,
 *                            which leaving replication does not wait for
 * A -DNO_... or other name in capitals takes one clause away.
 *
 * The check: `last` is the value of the last write known to have happened, `maybe` the writes answered with an error
 * and not seen since. A read gives `last` or one of `maybe`, which then has happened. Values are 1..WRITES.
 */
#ifndef WRITES
#define WRITES 2
#endif
#ifndef READS
#define READS 2
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 1
#endif
#ifndef BREAKS
#define BREAKS 0	/* connections to the old side that break with a write on them */
#endif
#ifndef CRASHES
#define CRASHES 0	/* of the shim */
#endif
#ifndef CALLOFFS
#define CALLOFFS 0	/* the bound is reached somewhere */
#endif
#ifndef LATES
#define LATES 0		/* a promote whose answer is not waited for */
#endif
#ifndef LEASES
#define LEASES 0	/* a lease that runs out */
#endif
#ifndef HANDS
#define HANDS 0		/* slots put back by hand; 1: while the shim is down, 2: at any time but in PROMOTE */
#endif

#if defined(NODE) || defined(REDIS)
#define FENCED_KIND
#endif

#define OLD 0
#define HOLD 1
#define PROMOTE 2
#define NEW 3
#define DOUBT 4

#define TO_OLD 0
#define VIA 1
#define TO_NEW 2

#define NONE 0		/* the client's write */
#define SENT 1		/* to the old side */
#define EXECUTED 2
#define DONE 3
#define FAILED 4	/* may have happened, may yet */
#define REFUSED 5	/* did not happen */

#define FENCE_KEY 10	/* + 2 * attempt + apply worker */
#define LOG 12
#define NOTHING 99

#ifdef ATTACHED
byte map[2] = VIA;
#else
byte map[2];
#endif
bit pinned[2];		/* a proxy with a request under way changes its mapping afterwards */
byte want, seen[2];		/* phase published; phase each worker acts by */
byte under_way;			/* writes sent and neither answered nor broken */
bit read_under_way;
bit up, kill, permit, owner_new, marker;
byte crashes, breaks, lates, leases, calloffs;
byte epoch;

byte old_value, old_end, old_log[LOG], orphans;
byte fenced;			/* 1 writes, 2 reads too */
byte new_value, received, applied0, applied1, new_epoch, asked, answered;
bit promoted, new_written;

byte write_no, state; bit by_shim;
byte last, maybe;

#ifdef NO_HOLD_ACK
#define HOLD_ACKED true
#else
#define HOLD_ACKED (seen[0] == want && seen[1] == want)
#endif
#ifdef NO_PROMOTE_ACK
#define PROMOTE_ACKED true
#else
#define PROMOTE_ACKED (seen[0] == want && seen[1] == want)
#endif

inline append(v) { old_log[old_end] = v; old_end++ }

inline new_side_takes(v) {
	assert(owner_new || marker);	/* I3: no client write on the new side before the owner record */
	new_value = v; last = v; new_written = 1
}

active proctype Workers()
{
end:	do
	:: atomic { seen[0] != want && up -> seen[0] = want }
	:: atomic { seen[1] != want && up -> seen[1] = want }
	od
}

active proctype OldSide()
{
	byte v;
end:	do
	:: atomic { state == SENT ->
		if
		:: fenced -> state = REFUSED
		:: else ->
			assert(!owner_new);	/* I1: a live write reaches the old side after the switch */
			old_value = write_no; append(write_no); last = write_no; state = EXECUTED
		fi;
		if :: by_shim && state == REFUSED -> under_way-- :: else fi }
	:: atomic { state == EXECUTED -> state = DONE; if :: by_shim -> under_way-- :: else fi }
	:: atomic { (state == SENT || state == EXECUTED) && breaks < BREAKS -> breaks++;
		if :: state == SENT -> orphans = orphans | (1 << write_no) :: else fi;
		if :: by_shim -> under_way-- :: else fi;
		state = FAILED }
	:: atomic { orphans != 0 ->	/* its connection is gone; it executes late, or never */
		if :: orphans & 2 -> v = 1 :: orphans & 4 -> v = 2 fi;
		orphans = orphans & ~(1 << v);
		if :: !fenced -> old_value = v; append(v) :: true fi;
		v = 0 }
	:: atomic { fenced == 1 && leases < LEASES -> leases++; fenced = 0 }
	od
}

active proctype NewSide()
{
	byte v;
end:	do
#ifdef FENCED_KIND
	:: atomic { !promoted && received < old_end -> new_value = old_log[received]; received++ }
#else
	:: atomic { !promoted && received < old_end -> received++ }
	:: atomic { applied0 < received -> v = old_log[applied0]; applied0++;
		if
		:: v < FENCE_KEY -> assert(!new_written); new_value = v	/* I2 (d): a late record over a client's write */
		:: else
		fi; v = 0 }
	:: applied1 < received -> applied1++
#endif
	:: atomic { asked != 0 ->	/* the request to leave replication, whenever it arrives */
		if
#ifndef NO_EPOCH
		:: asked < new_epoch
#endif
		:: else -> promoted = 1;
#ifdef NODE
			assert(fenced == 2 || owner_new)	/* never two sides that take writes */
#endif
		fi; answered = asked; asked = 0 }
	od
}

#ifdef FENCED_KIND
#define FENCE_READABLE true
#else
#define FENCE_READABLE (applied0 >= k0 && applied1 >= k1)
#endif

active proctype Shim()
{
	byte end_seen, proof, attempt, k0, k1;

start:	{
		atomic { end_seen = 0; proof = 0; k0 = 0; k1 = 0; epoch++ };
#ifndef NO_EPOCH_AT_START
		new_epoch = epoch;
#endif
#ifdef OPEN_BEFORE_TAKING_BACK
		if :: !owner_new -> atomic { want = OLD; seen[0] = OLD; seen[1] = OLD; up = 1 } :: else fi;
#endif
		if
#ifndef NO_MARKER
		:: !owner_new && marker -> want = DOUBT; goto open
#endif
		:: owner_new -> marker = 1; want = NEW; goto open
		:: else
		fi;
#ifdef RESUME_FORWARD
		if :: promoted -> owner_new = 1; marker = 1; want = NEW; goto open :: else fi;
#endif
		promoted = 0; fenced = 0;	/* what has no owner record is taken back */
		want = OLD;
open:		atomic { seen[0] = want; seen[1] = want; up = 1 };
		if :: want != OLD -> goto rest :: else fi;

again:		if :: attempt < ATTEMPTS -> attempt++ :: else -> goto rest fi;
#ifndef NO_PERMIT
		permit;
#endif
		atomic { epoch++; new_epoch = epoch };
		want = HOLD;
		HOLD_ACKED;
#ifndef NO_DRAIN
		under_way == 0;
#endif
#ifdef FENCED_KIND
# ifndef FENCE_LATE
		fenced = 1;
# endif
		end_seen = old_end; proof = old_end;
		if :: received >= proof :: calloffs < CALLOFFS -> calloffs++; goto undo fi;
#else
		end_seen = old_end;
		received >= end_seen;
# ifdef NO_FENCE_KEYS
		proof = end_seen; k0 = 0; k1 = 0;
# else
#  ifdef ONE_FENCE_KEY
		atomic { k0 = 0; k1 = 0;
			if :: append(FENCE_KEY); k0 = old_end :: append(FENCE_KEY + 1); k1 = old_end fi };
#   define KEYS 1
#  else
		atomic { append(FENCE_KEY); k0 = old_end };
		atomic { append(FENCE_KEY + 1); k1 = old_end };
#   define KEYS 2
#  endif
		proof = old_end;
#  ifndef NO_ACCOUNT
		if :: proof == end_seen + KEYS :: else -> goto undo fi;
#  endif
		if :: FENCE_READABLE :: calloffs < CALLOFFS -> calloffs++; goto undo fi;
# endif
#endif
#ifdef NO_READ_HOLD
# define FROM_HERE HOLD
#else
# define FROM_HERE PROMOTE
#endif
#if defined(NO_PERMIT) || defined(NO_PERMIT_AGAIN)
		want = FROM_HERE;
#else
		if :: atomic { permit -> want = FROM_HERE } :: !permit -> goto undo fi;
#endif
		PROMOTE_ACKED;
#ifndef NO_READ_DRAIN
		!read_under_way;
#endif
#ifdef NODE
# ifndef FENCE_LATE
		atomic { fenced = 2; end_seen = old_end };
#  ifndef NO_COMPARE_UNDER_FENCE
		if :: end_seen == proof :: else -> goto undo fi;
#  endif
# endif
#endif
		asked = epoch;
		if
		:: atomic { answered == epoch -> answered = 0 }
		:: lates < LATES -> lates++; goto undo
		fi;
#ifdef FENCE_LATE
		fenced = 2;
#endif
#ifndef NO_END_CHECK
		if :: received == proof && old_end == proof :: else -> goto undo fi;
#endif
#ifdef OPEN_BEFORE_RECORD
		want = NEW; HOLD_ACKED;
#endif
#ifdef UNKNOWN	/* the record's write fails: it is there, or it is not */
		if :: owner_new = 1 :: true fi;
# ifdef BACK_ON_UNKNOWN
		goto undo;
# else
		want = DOUBT; goto rest;
# endif
#endif
		owner_new = 1;
#ifdef MARK_LATE
		want = NEW; HOLD_ACKED;
#endif
		marker = 1;
		want = NEW;
#ifdef REDIS
		fenced = 0;
#endif
		goto rest;

undo:		atomic { epoch++; new_epoch = epoch };	/* what is late from this attempt is refused */
#ifdef UNFENCE_FIRST
		fenced = 0;
# ifdef NODE
		assert(!promoted || fenced == 2);
# endif
#endif
		promoted = 0; fenced = 0;
		want = OLD;
		atomic { proof = 0; end_seen = 0; k0 = 0; k1 = 0 };
		goto again;

rest:		atomic { proof = 0; end_seen = 0; k0 = 0; k1 = 0 };
end:		false
	} unless { kill -> kill = 0; goto start }
}

active proctype Crash()
{
end:	do
	:: atomic { up && crashes < CRASHES -> crashes++; up = 0; kill = 1; under_way = 0; read_under_way = 0;
#ifndef PERMIT_KEPT
		permit = 0;
#endif
#ifdef RESTORE		/* the state folder is an older copy */
		owner_new = 0;
#endif
		if
		:: by_shim && state == SENT -> orphans = orphans | (1 << write_no); state = FAILED
		:: by_shim && state == EXECUTED -> state = FAILED
		:: else
		fi }
	od
}

active proctype People()	/* dashboard, migrator, and an operator's hands */
{
	bit handed_back, by_hand;

#ifndef ATTACHED
	atomic { !pinned[0] -> map[0] = VIA };
# ifndef ZOMBIE			/* a proxy nobody knows of keeps its mapping */
	atomic { !pinned[1] -> map[1] = VIA };
# endif
	atomic { up -> permit = 1 };
#endif
end:	do
#ifdef UNGUARDED
	:: promoted && !handed_back -> handed_back = 1;
#else
	:: up && seen[0] == NEW && seen[1] == NEW && !handed_back -> handed_back = 1;
#endif
		atomic { !pinned[0] -> map[0] = TO_NEW };
#ifndef ZOMBIE
		atomic { !pinned[1] -> map[1] = TO_NEW };
#endif
#if HANDS
	:: atomic { !by_hand && !handed_back && (HANDS == 2 || !up) && (!up || want < PROMOTE) && !owner_new ->
		by_hand = 1; map[0] = TO_OLD;
#ifndef PERMIT_KEPT
		permit = 0;
#endif
		};
		atomic { !pinned[1] -> map[1] = TO_OLD };
		atomic { !pinned[0] && up -> map[0] = VIA };
		atomic { !pinned[1] -> map[1] = VIA };
#endif
#ifndef NO_PERMIT
	:: atomic { up && !permit && !handed_back && map[0] == VIA && map[1] == VIA -> permit = 1 }
#endif
	od
}

active proctype Client()
{
	byte n, r, p, got;
end:	do
	:: n < WRITES ->
		atomic { n++; if :: p = 0 :: p = 1 fi; pinned[p] = 1 };
		atomic {
			if
			:: map[p] == TO_OLD -> write_no = n; by_shim = 0; state = SENT
			:: map[p] == TO_NEW && promoted -> new_side_takes(n); state = DONE
			:: map[p] == TO_NEW && !promoted -> state = REFUSED
			:: map[p] == VIA && (!up || seen[p] == DOUBT) -> state = REFUSED
			:: map[p] == VIA && up && seen[p] == OLD -> write_no = n; by_shim = 1; under_way++; state = SENT
			:: map[p] == VIA && up && seen[p] == NEW -> new_side_takes(n); state = DONE
			fi };
		atomic { state >= DONE ->
			if
			:: state == FAILED && last != n -> maybe = maybe | (1 << n)
			:: else
			fi;
			state = NONE; write_no = 0; by_shim = 0; pinned[p] = 0; p = 0 }
	:: r < READS ->
		atomic { r++; if :: p = 0 :: p = 1 fi; pinned[p] = 1; got = NOTHING };
		atomic {
			if
			:: map[p] == TO_OLD -> if :: fenced < 2 -> got = old_value :: else fi
			:: map[p] == TO_NEW -> got = new_value
			:: map[p] == VIA && (!up || seen[p] == DOUBT)
			:: map[p] == VIA && up && seen[p] <= HOLD -> read_under_way = 1
			:: map[p] == VIA && up && seen[p] == NEW -> got = new_value
			fi };
		atomic {
			if
			:: read_under_way -> assert(fenced < 2);	/* an error for a client, and nothing is broken */
				got = old_value; read_under_way = 0
			:: else
			fi;
			pinned[p] = 0; p = 0;
			if
			:: got == NOTHING || got == last
			:: else ->
				assert(got > 0 && (maybe & (1 << got)));	/* stale, or an acknowledged write is gone */
				maybe = maybe & ~(1 << got); last = got
			fi;
			got = 0 }
	od
}
