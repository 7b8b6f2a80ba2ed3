"""What the shim's audit logs and the loads say about the pauses of a row, as figures beside their bars. Pure."""
from collections import namedtuple

Figure = namedtuple("Figure", "name value bar met")  # bar "" and met None: no bar


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0


def triple(values_us):
    """p50, p99, max in milliseconds."""
    return tuple(round(percentile(values_us, share) / 1000, 2) for share in (0.5, 0.99, 1))


def done(audits):
    return [e for audit in audits for e in audit if e["what"] == "cutover done"]


def taken_back(audits):
    return [e for audit in audits for e in audit if e["what"] == "cutover ended"]


def idle_gaps_ms(audits):
    """Nothing was held between two units although the second one was there: the shim's own measure."""
    return [round(e["gap_us"] / 1000, 2) for e in done(audits) if e["gap_us"] >= 0]


def steps_text(audits):
    """What the shim's calls to the servers took; those before the hold and after it, too."""
    times = {}
    for entry in (e for audit in audits for e in audit if e["what"] == "step done" and e["ok"]):
        times.setdefault(entry["step"], []).append(entry["us"])
    return ", ".join("%s %.1f / %.1f" % (step, *triple(values)[:2]) for step, values in times.items())


def seconds_of(audit):
    """From the first unit's beginning to the last one's end."""
    times = [e["wall_ms"] for e in audit if e["what"] in ("cutover begins", "cutover done")]
    return round((max(times) - min(times)) / 1000, 2) if times else 0


def at_most(name, value, bar, unit="ms"):
    return Figure(name, value, "<= %g %s" % (bar, unit), value <= bar)


def none_of(name, value):
    return Figure(name, value, "0", value == 0)


def pause_figures(audits, p50=None, p99=None, most=None):
    """`p50`, `p99`, `most`: the row's bars in milliseconds."""
    units = done(audits)
    held = [e for e in units if e["held"] > 0]
    out = [Figure("units cut over", len(units), "", None), Figure("of them with requests held", len(held), "", None)]
    # For all units: from the first worker told to hold to everything let go. No request can have waited longer.
    groups = (("pause, units that held requests", [e["pause_us"] for e in held]),
              ("held state, all units", [e["hold_us"] for e in units]))
    for name, values in groups:
        for label, value, bar in zip(("p50", "p99", "max"), triple(values), (p50, p99, most)):
            full = "%s: %s" % (name, label)
            out.append(Figure(full, value, "", None) if bar is None or name.startswith("held")
                       else at_most(full, value, bar))
    out += [Figure("device sync time in it: %s" % label, value, "", None)
            for label, value in zip(("p50", "p99", "max"), triple([e["sync_us"] for e in units]))]
    out.append(Figure("steps, p50 / p99", steps_text(audits), "", None))
    back = taken_back(audits)
    out.append(Figure("attempts taken back", len(back), "", None))
    out.append(Figure("their held state: max", triple([e["hold_us"] for e in back])[2], "", None))
    return out


def load_figures(main, probe, checker, rate):
    """Of the clients: the paced load, the uninvolved slot's probe and the checking clients."""
    base, cut = probe.windows.get("base", {}), probe.windows.get("cut", {})
    ratio = round(cut.get("p99_us", 0) / max(base.get("p99_us", 0), 1), 2)
    during = main.windows.get("cut", {})
    return [
        Figure("writes/s asked for", rate, "", None),
        Figure("writes/s answered during cutovers", round(during.get("per_second", 0)), "", None),
        Figure("clients' longest wait during cutovers", round(during.get("max_us", 0) / 1000, 2), "", None),
        Figure("clients' p99 during cutovers", round(during.get("p99_us", 0) / 1000, 2), "", None),
        Figure("clients' p99 without cutovers", round(main.windows.get("base", {}).get("p99_us", 0) / 1000, 2), "", None),
        Figure("uninvolved slot p99 without cutovers", round(base.get("p99_us", 0) / 1000, 2), "", None),
        Figure("uninvolved slot p99 during cutovers", round(cut.get("p99_us", 0) / 1000, 2), "", None),
        at_most("uninvolved slot, ratio", ratio, 2, "x"),
        none_of("client errors", main.errors + probe.errors + checker["errors"]),
        none_of("lost", checker["lost"]), none_of("doubled", checker["doubled"]), none_of("stale", checker["stale"]),
    ]


def last_attempt(entries, unit):
    """Of one unit, from where its last attempt begins."""
    of_unit = [e for e in entries if e.get("slots") == unit]
    begins = [i for i, e in enumerate(of_unit) if e["what"] == "cutover begins"]
    return of_unit[begins[-1] if begins else 0:]


def failed_step(entries):
    """Of an attempt that was taken back: the step that found out, or the last one begun before the wait that found out."""
    failed = [e["step"] for e in entries if e["what"] == "step done" and not e["ok"]]
    begun = [e["step"] for e in entries if e["what"] == "step begins"]
    first_undo = min([i for i, s in enumerate(begun) if s in ("follow-again", "unfence")], default=len(begun))
    if failed and failed[0] not in ("follow-again", "unfence"):
        return failed[0]
    return "after " + begun[first_undo - 1]


def fault_figures(holds_us, waits_us, steps, bound_ms):
    out = [Figure("faults that fell into a held unit", len(holds_us), "", None)]
    out += [Figure("found out in step: %s" % step, steps.count(step), "", None) for step in sorted(set(steps))]
    limit = bound_ms + 100
    for name, values in (("back in OLD and let go", holds_us), ("clients' longest wait of each", waits_us)):
        for label, value in zip(("p50", "p99", "max"), triple(values)):
            full = "%s: %s" % (name, label)
            out.append(at_most(full, value, limit) if label == "max" else Figure(full, value, "", None))
    return out


TABLE_HEAD = "| row | figure (times in ms) | value | bar | |\n| --- | --- | --- | --- | --- |"


def table_lines(row, figures):
    def line(f):
        word = "" if f.met is None else ("met" if f.met else "**not met**")
        return "| %s | %s | %s | %s | %s |" % (row, f.name, f.value, f.bar, word)
    return "\n".join(map(line, figures))
