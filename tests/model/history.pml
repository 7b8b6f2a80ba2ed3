/* Histories (README.md): three nodes with whole logs; the tail that was not synced is lost with the power; the master
 * fails over; a replica is taken on where it stands only if (its history, its position) is a prefix of the master's,
 * else it copies. Same history and equal position must mean equal content.
 *
 *   -DNO_NEW_ID_AT_START     a start after a power loss goes on in the old history
 *   -DNO_NEW_ID_AT_PROMOTE   a promoted replica goes on in its old master's
 *   -DNO_FORK                a known history is common whatever the position
 *   -DONE_FORK               only the first fork on the way is looked at
 *   -DID_NOT_SYNCED          the new history's record may be lost with the tail, and its number be used again
 *   -DAHEAD_TAKEN            a replica beyond the master's end is taken for in step
 */
#ifndef WRITES
#define WRITES 4
#endif
#ifndef LOSSES
#define LOSSES 2
#endif
#define NODES 3
#define IDS 8

typedef Node { byte log[WRITES]; byte size, synced, history, synced_history; bit linked };
Node node[NODES];
byte master, writes, losses, failovers, ids, synced_ids;
byte parent[IDS], forked_at[IDS];
byte i, k, h, common;

inline begin_history(x) {
	ids++; parent[ids] = node[x].history; forked_at[ids] = node[x].size; node[x].history = ids;
#ifndef ID_NOT_SYNCED
	node[x].synced_history = ids; synced_ids = ids
#endif
}

inline unlink_all() { node[0].linked = 0; node[1].linked = 0; node[2].linked = 0 }

inline judge(x) {	/* how much of x's log the master shares, by the chain of forks */
	h = node[master].history; common = node[master].size; k = 0;
	do
	:: h != node[x].history && h != 0 ->
#ifndef NO_FORK
# ifdef ONE_FORK
		if :: k == 0 && forked_at[h] < common -> common = forked_at[h] :: else fi;
		k++;
# else
		if :: forked_at[h] < common -> common = forked_at[h] :: else fi;
# endif
#endif
		h = parent[h]
	:: else -> break
	od;
	k = 0
}

active proctype World()
{
end:	do
	:: atomic { writes < WRITES && node[master].size < WRITES -> writes++;
		node[master].log[node[master].size] = writes; node[master].size++ }
	:: atomic { node[master].synced < node[master].size -> node[master].synced = node[master].size;
		node[master].synced_history = node[master].history; synced_ids = ids }
	:: atomic { losses < LOSSES -> losses++; unlink_all();
		k = node[master].synced;
		do :: k < node[master].size -> node[master].log[k] = 0; k++ :: else -> break od; k = 0;
		node[master].size = node[master].synced;
#ifdef ID_NOT_SYNCED
		node[master].history = node[master].synced_history; ids = synced_ids;
#endif
#ifndef NO_NEW_ID_AT_START
		begin_history(master)
#endif
		}
	:: atomic { failovers < 1 -> failovers++; unlink_all();
		if :: master != 0 -> master = 0 :: master != 1 -> master = 1 :: master != 2 -> master = 2 fi;
#ifndef NO_NEW_ID_AT_PROMOTE
		begin_history(master)
#endif
		}
	:: atomic { if :: i = 0 :: i = 1 :: i = 2 fi;	/* a replica connects */
		if
		:: i != master && !node[i].linked ->
			judge(i);
			if
#ifdef AHEAD_TAKEN
			:: h == node[i].history ->
#else
			:: h == node[i].history && node[i].size <= common ->
#endif
				node[i].linked = 1; node[i].history = node[master].history
			:: else ->
				k = 0;
				do
				:: k < WRITES -> node[i].log[k] = node[master].log[k]; k++
				:: else -> break
				od;
				node[i].size = node[master].size; node[i].synced = node[i].size; node[i].linked = 1;
				node[i].history = node[master].history; node[i].synced_history = node[i].history
			fi
		:: else
		fi; i = 0; k = 0; h = 0; common = 0 }
	:: atomic { if :: i = 0 :: i = 1 :: i = 2 fi;	/* one record of the stream */
		if
		:: i != master && node[i].linked && node[i].size < node[master].size ->
			node[i].log[node[i].size] = node[master].log[node[i].size]; node[i].size++
		:: else
		fi; i = 0 }
	:: atomic { if :: i = 0 :: i = 1 :: i = 2 fi;
		if
		:: i != master && node[i].linked && node[i].size >= node[master].size ->
			k = 0;
			do
			:: k < node[i].size -> assert(node[i].log[k] == node[master].log[k]); k++
			:: else -> break
			od
		:: else
		fi; i = 0; k = 0 }
	od
}
