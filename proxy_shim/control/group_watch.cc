#include "proxy_shim/control/group_watch.h"

#include <httplib.h>

#include <nlohmann/json.hpp>

namespace sf {

GroupWatch::GroupWatch(const MovePlan& plan, SlotBoard* board, StateStore* store,
                       std::function<void(std::string)> on_change, Log log)
    : dashboard_(plan.dashboard),
      groups_{plan.source_group, plan.target_group},
      ours_{plan.old_side.master.text(), plan.new_side.master.text()},
      board_(board),
      store_(store),
      on_change_(std::move(on_change)),
      log_(std::move(log)),
      rounds_(std::chrono::milliseconds(kPeriodMs), [this] { round(); }) {}

bool GroupWatch::confirms(PairSide side) {
  round();
  std::lock_guard guard(judging_);
  return other_[side == PairSide::kNew].empty();
}

std::optional<std::string> GroupWatch::first_server(std::string_view stats_json, int group) {
  const auto json = nlohmann::json::parse(stats_json, nullptr, false);
  try {
    for (const auto& model : json.at("group").at("models")) {
      if (model.at("id").get<int>() != group) continue;
      const auto& servers = model.at("servers");
      return servers.empty() ? std::string() : servers.at(0).at("server").get<std::string>();
    }
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return std::nullopt;
}

void GroupWatch::round() {
  httplib::Client client(dashboard_.host, dashboard_.port);
  client.set_connection_timeout(1);
  client.set_read_timeout(2);
  const auto answer = client.Get("/topom/stats");
  const bool is_there = answer && answer->status == 200;
  {
    std::lock_guard guard(judging_);
    if (is_there != reachable_) {
      reachable_ = is_there;
      const std::string name = cat("the dashboard ", dashboard_.text());
      is_there ? log_.info(name + " answers again")
               : log_.warning(name + " does not answer: its failovers would not be noticed");
    }
  }
  if (is_there) judge(answer->body);
}

void GroupWatch::judge(std::string_view stats_json) {
  std::lock_guard guard(judging_);
  for (const PairSide side : {PairSide::kOld, PairSide::kNew}) {
    const auto first = first_server(stats_json, groups_[side == PairSide::kNew]);
    if (first && !first->empty()) judge_side(side, *first);
  }
}

void GroupWatch::judge_side(PairSide side, const std::string& first) {
  const size_t at = side == PairSide::kNew ? 1 : 0;
  const std::string other = first == ours_[at] ? std::string() : first;
  if (other == other_[at]) return;
  other_[at] = other;
  const std::string name = side_name(side);
  const std::string text =
      other.empty()
          ? cat("the first server of the ", name, " group is ", ours_[at], " again: writes go on")
          : cat("the first server of the ", name, " group is ", other, " now, not ", ours_[at],
                ": writes to it are stopped; name it in the plan (", name,
                ".master) and say SHIM RELOAD");
  log_.warning(text);
  store_->audit({{"what", "first server changed"}, {"side", name}, {"text", text}});
  const Status status = board_->stop_writes(side, SlotBoard::Reason::kGroup, !other.empty());
  if (!status) log_.error(status.text());
  if (!other.empty()) on_change_(text);
}

}  // namespace sf
