/* A slot's copy joins a stream that runs already (README.md). One key in the slot; 0 is "not there". The replica may
 * die at any moment: what it wrote in one batch is there whole or not at all, its order of batches is the disk's.
 * Its slot may hold rest of an earlier attempt.
 *
 *   -DNO_WIPE                the copy is put over what is there
 *   -DEARLY                  the stream is applied to the slot before its copy is in
 *   -DONE_POSITION           in step by the stream's position instead of the slot's own
 *   -DPOSITION_FIRST         the slot's position is recorded before its data
 *   -DSLOT_SEQ_ZERO          a restarted master says 0 for slots it does not remember
 *   -DSNAPSHOT_AFTER         the snapshot is taken after the position said for it
 */
#ifndef WRITES
#define WRITES 3
#endif
#define REST 7
byte log[WRITES], size, value, slot_seq;		/* the master */
byte snap_seq, snap_value; bit snapped, seq_said, restarted;
byte copy = REST, own, stream;			/* the replica */
bit wiped, ingested, placed, died;

active proctype Master()
{
	byte v;
end:	do
	:: atomic { size < WRITES -> if :: v = size + 1 :: v = 0 fi; log[size] = v; size++; value = v; slot_seq = size; v = 0 }
	:: atomic { !restarted -> restarted = 1;
#ifdef SLOT_SEQ_ZERO
		slot_seq = 0
#else
		slot_seq = size
#endif
		}
#ifdef SNAPSHOT_AFTER
	:: atomic { !seq_said -> seq_said = 1; snap_seq = size }
	:: atomic { seq_said && !snapped && size > snap_seq -> snapped = 1; snap_value = value; snap_seq = size + 1 }
	:: atomic { seq_said && !snapped -> snapped = 1; snap_value = value }
#else
	:: atomic { !snapped -> snapped = 1; snap_seq = size; snap_value = value }
#endif
	od
}

active proctype Replica()
{
end:	do
#ifndef NO_WIPE
	:: atomic { snapped && !wiped -> copy = 0; wiped = 1 }
#else
	:: snapped && !wiped -> wiped = 1
#endif
#ifdef POSITION_FIRST
	:: atomic { wiped && !placed -> own = snap_seq; placed = 1 }
	:: atomic { placed && !ingested -> if :: snap_value != 0 -> copy = snap_value :: else fi; ingested = 1 }
#else
	:: atomic { wiped && !ingested -> if :: snap_value != 0 -> copy = snap_value :: else fi; ingested = 1 }
	:: atomic { ingested && !placed -> own = snap_seq; placed = 1 }
#endif
	:: atomic { !died -> died = 1;		/* without a position the copy is begun anew */
		if
		:: placed -> ingested = 1	/* the record says: it is here */
		:: else -> wiped = 0; ingested = 0; snapped = 0; seq_said = 0
		fi }
	:: atomic { stream < size -> stream++ ;
#ifdef EARLY
		copy = log[stream - 1]
#endif
		}
#ifndef EARLY
	:: atomic { placed && own < stream -> copy = log[own]; own++ }
#endif
#if defined(ONE_POSITION) || defined(EARLY)
	:: atomic { placed && ingested && stream >= slot_seq -> assert(copy == value) }
#else
	:: atomic { placed && own >= slot_seq -> assert(copy == value) }
#endif
	od
}
