#include "proxy_shim/control/metrics_page.h"

#include <prometheus/text_serializer.h>

#include <array>
#include <sstream>

namespace sf {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

class Families {
 public:
  explicit Families(std::string plan) : plan_(std::move(plan)) {}

  void counter(const char* name, const char* help, int64_t value) {
    ClientMetric metric = labelled();
    metric.counter.value = static_cast<double>(value);
    add(name, help, MetricType::Counter, std::move(metric));
  }
  void gauge(const char* name, const char* help, double value) {
    ClientMetric metric = labelled();
    metric.gauge.value = value;
    add(name, help, MetricType::Gauge, std::move(metric));
  }
  // One more line of the family added last.
  void gauge_of(const char* label, const char* which, double value) {
    ClientMetric metric = labelled();
    metric.label.push_back({label, which});
    metric.gauge.value = value;
    families_.back().metric.push_back(std::move(metric));
  }
  void family(const char* name, const char* help) {
    families_.push_back({std::string(kPrefix) + name, help, MetricType::Gauge, {}});
  }
  std::string text() const {
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, families_);
    return out.str();
  }

 private:
  static constexpr const char* kPrefix = "slotferry_shim_";
  ClientMetric labelled() const {
    ClientMetric metric;
    metric.label.push_back({"plan", plan_});
    return metric;
  }
  void add(const char* name, const char* help, MetricType type, ClientMetric metric) {
    families_.push_back({std::string(kPrefix) + name, help, type, {std::move(metric)}});
  }

  const std::string plan_;
  std::vector<MetricFamily> families_;
};

constexpr std::array<SlotPhase, 7> kPhases = {
    SlotPhase::kOld, SlotPhase::kHold,  SlotPhase::kBarrier, SlotPhase::kPromote,
    SlotPhase::kNew, SlotPhase::kFinal, SlotPhase::kDoubt};

double seconds(int64_t us) {
  return static_cast<double>(us) / 1e6;
}

}  // namespace

std::string metrics_page(const ShimReport& report) {
  Families out(report.plan_id());
  const DataPlaneStats data = report.data();
  const PauseSummary pauses = report.pauses();
  out.counter("requests_total", "Requests read from clients.", data.requests);
  out.counter("errors_total", "Requests answered with an error of the shim's own.", data.errors);
  out.counter("received_bytes_total", "Bytes read from clients.", data.bytes_in);
  out.counter("sent_bytes_total", "Bytes written to clients.", data.bytes_out);
  out.counter("refused_requests_total", "Requests that the shim refuses.", data.rejected);
  out.counter("rejected_clients_total", "Connections over maxclients.", data.refused_clients);
  out.gauge("clients", "Client connections.", static_cast<double>(data.clients));
  out.gauge("inflight_requests", "Requests sent to a server and not answered yet.",
            static_cast<double>(data.inflight));
  out.gauge("held_requests", "Requests held by cutovers now.", static_cast<double>(data.held_now));
  out.gauge("held_bytes", "Bytes of the requests held now.",
            static_cast<double>(data.held_bytes_now));
  out.family("slots", "Slots of the plan by state.");
  for (const SlotPhase phase : kPhases) {
    out.gauge_of("state", std::string(phase_name(phase)).c_str(),
                 static_cast<double>(report.count(phase)));
  }
  out.counter("cutovers_total", "Units switched since the start.", pauses.cutovers);
  out.family("pause_seconds",
             "How long cutovers held requests, first held to last let go, since the start.");
  out.gauge_of("quantile", "0.5", seconds(pauses.pause_p50_us));
  out.gauge_of("quantile", "0.99", seconds(pauses.pause_p99_us));
  out.gauge_of("quantile", "1", seconds(pauses.pause_max_us));
  out.gauge("owner_record_sync_p99_seconds", "The synced write of the owner record, in the pause.",
            seconds(pauses.sync_p99_us));
  out.family("idle_gap_seconds",
             "How long nothing was held between two units although the second was there.");
  out.gauge_of("quantile", "0.5", seconds(pauses.gap_p50_us));
  out.gauge_of("quantile", "0.99", seconds(pauses.gap_p99_us));
  out.gauge_of("quantile", "1", seconds(pauses.gap_max_us));
  const HealList::Report heals = report.heals();
  out.gauge("heal_list_keys", "Keys that are compared, and healed, in the next pause.",
            static_cast<double>(heals.keys));
  out.counter("heal_compared_total", "Keys compared in pauses since the start.", heals.compared);
  out.counter("healed_keys_total", "Keys that differed and were copied to the new side.",
              heals.healed);
  int64_t behind = 0;
  int64_t unknown = 0;
  report.slots().for_each([&](int slot) {
    const SlotRow row = report.slot(slot).row;
    if (row.phase != SlotPhase::kOld) return;
    if (row.lag < 0) ++unknown;
    behind = std::max(behind, row.lag);
  });
  out.gauge("replication_lag_max", "The new side's lag in the slot furthest behind, as SHIM SLOTS.",
            static_cast<double>(behind));
  out.gauge("replication_lag_unknown_slots",
            "Slots in state OLD that the new side does not follow.", static_cast<double>(unknown));
  out.gauge("healthy", "0: /healthz says why.", report.unwell().empty() ? 1 : 0);
  return out.text();
}

}  // namespace sf
