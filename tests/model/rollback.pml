/* The way back: after a switch the old side follows the new one, and a roll back switches again (README.md).
 * Both logs count from the switch. What the old side may hold that the new one never got: a late write whose connection
 * had broken (-DLATE), or a record the shim itself wrote there after the proof (-DCLEANED_ON_OLD: fence keys deleted). Both are of other keys.
 *
 *   -DNODE  applied when received, fence before the end is read; else Pika: two apply workers, fence keys
 *   -DNO_EXACT_LINK     the link is made wherever the old side stands
 *   -DNO_FENCE_KEYS     equal ends are taken for applied
 *   -DNO_READ_HOLD      reads go on at the new side while the old one is promoted and opened
 *   -DSTRAY             a proxy the shim does not see writes to the old side; with it the promote may be taken back
 *   -DOPEN_AT_PROMOTE   the promote lifts the fence of the switch, not the owner record
 */
#ifndef WRITES
#define WRITES 2
#endif
#define FENCE_KEY 10
#define HOLD 1
#define PROMOTE 2
#define BACK 3

byte new_log[8], new_end, new_value;
byte old_end, old_value, received, applied0, applied1;	/* received: of the new side's log */
bit  linked, promoted, fenced, late, old_written;
bit  shut = 1;		/* node: the old side, by the permanent fence of the switch */
bit  record;		/* the old side is the owner */
byte route;		/* 0: all to the new side */
byte last;

active proctype OldSide()
{
	byte v;
#ifdef LATE
	late = 1;
#endif
#ifdef CLEANED_ON_OLD
	old_end = 1;
#endif
end:	do
	:: atomic { late && !linked && !promoted -> late = 0; old_end++ }
	:: late -> late = 0
	:: atomic { linked && !promoted && old_end < new_end -> received = old_end + 1; old_end++ }
	:: atomic { applied0 < received -> v = new_log[applied0]; applied0++;
		if
		:: v != 0 && v < FENCE_KEY -> assert(!old_written); old_value = v
		:: else
		fi;
#ifdef NODE
		applied1 = applied0;
#endif
		v = 0 }
#ifndef NODE
	:: applied1 < received -> applied1++
#endif
	od
}

active proctype Shim()
{
	byte proof, seen;
#ifdef NO_EXACT_LINK
	atomic { old_end <= new_end -> linked = 1; received = old_end; applied0 = old_end; applied1 = old_end };
#else
	if	/* the old side's end is the new side's position at the switch, or there is no way back */
	:: atomic { old_end == 0 -> linked = 1 }
	:: atomic { old_end != 0 -> goto rest }
	fi;
#endif
	route = HOLD;
#ifdef NODE
	fenced = 1;
	proof = new_end;
	applied0 == proof;
#else
	seen = new_end;
	old_end >= seen;
# ifdef NO_FENCE_KEYS
	proof = new_end;
# else
	atomic { new_log[new_end] = FENCE_KEY; new_log[new_end + 1] = FENCE_KEY + 1; new_end = new_end + 2 };
	proof = new_end;
	if :: proof == seen + 2 :: else -> route = 0; goto rest fi;
	applied0 >= proof && applied1 >= proof;
# endif
#endif
#ifndef NO_READ_HOLD
	route = PROMOTE;
#endif
	atomic { promoted = 1; linked = 0;
#ifdef OPEN_AT_PROMOTE
		shut = 0;
#endif
	};
#ifdef STRAY
	if
	:: true
	:: atomic { promoted = 0; linked = 1; route = 0; goto rest }
	fi;
#endif
	if :: old_end == proof && new_end == proof :: else -> route = 0; goto rest fi;
#ifdef NO_READ_HOLD
	old_written = 1; old_value = 7; last = 7;	/* another client's write on the new owner */
	route = HOLD;
#endif
	record = 1;
	shut = 0;
	route = BACK;
rest:	seen = 0; proof = 0;
end:	false
}

#ifdef STRAY
active proctype Stray()
{
end:	atomic { promoted && !shut -> assert(record) }
}
#endif

active proctype Client()
{
	byte n, r, got;
end:	do
	:: n < WRITES -> n++;
		atomic {
			if
			:: route == 0 -> new_value = n; new_log[new_end] = n; new_end++
			:: route == BACK -> old_value = n; old_written = 1
			fi;
			last = n }
	:: r < 3 -> r++;
		atomic {
			if :: route <= HOLD -> got = new_value :: route == BACK -> got = old_value fi;
			if
			:: got == last
			:: else -> assert(false)	/* stale, or an acknowledged write is gone */
			fi;
			got = 0 }
	od
}
