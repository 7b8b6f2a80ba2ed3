#include "tests/support/codis/proxy_session.h"

#include "common/resp/encoder.h"
#include "common/slots/slot_hash.h"

namespace sf::codis {
namespace {

constexpr size_t kNameMax = 64;
// Unsent replies beyond this stop the reading of more requests.
constexpr size_t kUnsentMax = 1024 * 1024;

// 3.2: the first argument, but the first key of these four.
size_t hash_key_index(const Op& op) {
  const bool third = op.name == "ZINTERSTORE" || op.name == "ZUNIONSTORE" || op.name == "EVAL" ||
                     op.name == "EVALSHA";
  return third ? 3 : 1;
}

std::vector<std::string> to_strings(std::span<const std::string_view> argv) {
  return {argv.begin(), argv.end()};
}

void mapping_of(std::string& out, const Slot& slot) {
  resp::array(out, 4);
  resp::status(out, std::to_string(slot.as_filled.id));
  resp::status(out, slot.as_filled.backend_addr);
  resp::status(out, slot.as_filled.migrate_from);
  if (slot.as_filled.replica_groups.empty()) {
    resp::nil_array(out);
    return;
  }
  resp::array(out, slot.as_filled.replica_groups.size());
  for (const auto& group : slot.as_filled.replica_groups) {
    resp::array(out, group.size());
    for (const auto& address : group) resp::status(out, address);
  }
}

// A reply that has to wait for the proxy's lock.
class LatePending final : public Pending {};

}  // namespace

Session::Session(Loop& loop, Router& router, const ProxyOptions& options, ProxyCounters& counters,
                 size_t seed, std::function<void()> on_end)
    : loop_(loop),
      router_(router),
      options_(options),
      counters_(counters),
      seed_(seed),
      on_end_(std::move(on_end)) {
  ++counters_.sessions;
  ++counters_.alive;
}

Session::~Session() {
  for (const auto& pending : row_) pending->session = nullptr;
  --counters_.alive;
}

void Session::adopt(std::unique_ptr<AcceptedSocket> socket) {
  stream_ = loop_.adopt(std::move(socket), this);
}

void Session::refuse_client() {
  answer_error("ERR max number of clients reached");
  end();
}

size_t Session::on_data(std::string_view unread) {
  size_t used = 0;
  while (stopped_ == 0 && used < unread.size()) {
    const std::string_view rest = unread.substr(used);
    const auto outcome = parser_.parse(rest, &request_);
    const size_t consumed = outcome == RequestParser::Outcome::kError ? 0 : parser_.consumed();
    const size_t request = outcome == RequestParser::Outcome::kRequest ? request_.raw.size() : 0;
    const bool empty_array = rest.substr(0, consumed - request).find('*') != std::string_view::npos;
    if (outcome == RequestParser::Outcome::kError || empty_array) {
      end();  // without a word, as codis-proxy does
      return unread.size();
    }
    used += consumed;
    if (outcome == RequestParser::Outcome::kNeedMore) break;
    handle(request_);
    if (row_.size() >= options_.session_pipeline_max) stop(kManyReplies);
  }
  return used;
}

void Session::handle(const Request& request) {
  ++counters_.requests;
  const Argv argv(request.argv);
  if (argv[0].empty() || argv[0].size() > kNameMax) {
    return answer_error("ERR handle request, bad command length, too short or too long");
  }
  const Op& op = find_op(argv[0]);
  if ((op.flags & kOpNotAllow) != 0) {
    return answer_error(
        cat("ERR handle request, command '", to_upper(argv[0]), "' is not allowed"));
  }
  if (!handle_own(op, argv)) handle_keyed(request, op);
}

// What the proxy answers itself or sends by something else than a key.
bool Session::handle_own(const Op& op, Argv argv) {
  if (op.name == "QUIT") {
    answer("+OK\r\n");
    end();
  } else if (op.name == "AUTH") {
    answer_error(argv.size() == 2 ? "ERR Client sent AUTH, but no password is set"
                                  : "ERR wrong number of arguments for 'AUTH' command");
  } else if (op.name == "SELECT") {
    select(argv);
  } else if (op.name == "SLOTSMAPPING") {
    slots_mapping(argv);
  } else if (op.name == "PING" || op.name == "INFO") {
    if (argv.size() > 1) {
      to_address(argv);
    } else {
      to_slot(op, router_.random_slot(), "", nullptr, argv);
    }
  } else if (op.name == "SLOTSINFO") {
    if (argv.size() == 2) {
      to_address(argv);
    } else {
      answer_error("ERR wrong number of arguments for 'SLOTSINFO' command");
    }
  } else if (op.name == "SLOTSSCAN") {
    const auto slot = argv.size() > 1 ? parse_int64(argv[1]) : std::nullopt;
    if (argv.size() < 3) {
      answer_error("ERR wrong number of arguments for 'SLOTSSCAN' command");
    } else if (!slot || *slot < 0 || *slot >= kSlots) {
      answer_error("ERR parse slotnum failed, invalid slot");
    } else {
      to_slot(op, static_cast<int>(*slot), "", nullptr, argv);
    }
  } else {
    return false;
  }
  return true;
}

void Session::handle_keyed(const Request& request, const Op& op) {
  const Argv argv(request.argv);
  if (op.name == "MGET") return handle_split(op, argv, Join::kMget, 1);
  if (op.name == "MSET") return handle_split(op, argv, Join::kMset, 2);
  if (op.name == "DEL" || op.name == "EXISTS") return handle_split(op, argv, Join::kCount, 1);
  const size_t at = hash_key_index(op);
  const std::string_view key = at < argv.size() ? argv[at] : std::string_view();
  to_slot(op, slot_of(key), key, &request, argv);
}

void Session::handle_split(const Op& op, Argv argv, Join join, size_t step) {
  const size_t rest = argv.size() - 1;
  if (rest == 0 || rest % step != 0) {
    return answer_error(cat("ERR wrong number of arguments for '", op.name, "' command"));
  }
  if (rest == step) return to_slot(op, slot_of(argv[1]), argv[1], nullptr, argv);
  auto command = std::make_shared<SplitCommand>(this, join, op.name, rest / step);
  row_.push_back(command);
  auto job = std::make_shared<Job>(loop_, router_, command, op, database_, seed_);
  for (size_t i = 1; i < argv.size(); i += step) {
    Job::Piece piece;
    piece.slot = slot_of(argv[i]);
    piece.hash_key = argv[i];
    piece.argv.emplace_back(argv[0]);
    for (size_t k = 0; k < step; ++k) piece.argv.emplace_back(argv[i + k]);
    job->add(std::move(piece));
  }
  start_job(job);
}

void Session::start_job(const std::shared_ptr<Job>& job) {
  if (!job->start()) stop(kJob);
}

// Sends a request that has one piece. `raw`, if given, is its bytes as the client wrote them.
void Session::to_slot(const Op& op, int id, std::string_view hash_key, const Request* raw,
                      Argv argv) {
  Slot& slot = router_.slot(id);
  const bool plain =
      !slot.held && slot.backend != nullptr && (slot.migrate_from == nullptr || hash_key.empty());
  if (plain) {
    BackendConn& conn = router_.conn_for(slot, op.for_replica(), database_, seed_);
    if (!conn.full()) {
      auto command = std::make_shared<SingleCommand>(this, op.read_only());
      command->hold(&slot);
      row_.push_back(command);
      if (raw != nullptr && !raw->is_inline) {
        conn.send(raw->raw, std::move(command));
      } else {
        std::string bytes;
        resp::request(bytes, argv);
        conn.send(bytes, std::move(command));
      }
      return;
    }
  }
  auto command = std::make_shared<SplitCommand>(this, Join::kOne, op.name, 1);
  row_.push_back(command);
  auto job = std::make_shared<Job>(loop_, router_, command, op, database_, seed_);
  job->add({id, std::string(hash_key), to_strings(argv)});
  start_job(job);
}

// `PING addr`, `INFO addr`, `SLOTSINFO addr`: the address is taken off, the rest goes there. Needs
// the proxy's lock, so it waits for a fillslots (trap 12).
void Session::to_address(Argv argv) {
  const std::string address(argv[1]);
  std::vector<std::string> rest = to_strings(argv);
  rest.erase(rest.begin() + 1);
  auto command = std::make_shared<SingleCommand>(this, true);
  row_.push_back(command);
  router_.when_unlocked([this_router = &router_, address, rest, command, database = database_] {
    BackendConn* conn = this_router->by_address(address, database);
    if (conn != nullptr) {
      conn->send(encode(rest), command);
      return;
    }
    std::string error;
    resp::error(error, cat("ERR backend server '", address, "' not found"));
    command->finish(error);
  });
}

void Session::slots_mapping(Argv argv) {
  const auto slot = argv.size() == 2 ? parse_int64(argv[1]) : std::optional<int64_t>(0);
  if (argv.size() > 2) {
    return answer_error("ERR wrong number of arguments for 'SLOTSMAPPING' command");
  }
  if (!slot || *slot < 0 || *slot >= kSlots) {
    return answer_error("ERR parse slotnum failed, invalid slot");
  }
  const bool all = argv.size() == 1;
  auto pending = std::make_shared<LatePending>();
  pending->session = this;
  row_.push_back(pending);
  router_.when_unlocked([this_router = &router_, pending, all, id = static_cast<int>(*slot)] {
    std::string out;
    if (all) resp::array(out, kSlots);
    for (int i = all ? 0 : id; i < (all ? kSlots : id + 1); ++i) {
      mapping_of(out, this_router->slot(i));
    }
    pending->finish(out);
  });
}

void Session::select(Argv argv) {
  if (argv.size() != 2) return answer_error("ERR wrong number of arguments for 'SELECT' command");
  const auto database = parse_int64(argv[1]);
  if (!database) return answer_error("ERR invalid DB index");
  if (*database < 0 || *database >= options_.databases) {
    return answer_error("ERR invalid DB index, out of range");
  }
  database_ = static_cast<int>(*database);
  answer("+OK\r\n");
}

void Session::answer(std::string_view reply) {
  auto pending = std::make_shared<LatePending>();
  pending->session = this;
  row_.push_back(pending);
  pending->finish(reply);
}

void Session::answer_error(std::string_view text) {
  ++counters_.failures;
  std::string out;
  resp::error(out, text);
  answer(out);
}

void Session::finished(Pending& pending, std::string_view reply) {
  if (row_.empty() || row_.front().get() != &pending) {
    pending.reply = reply;
    return;
  }
  stream_->output().append(reply);
  row_.pop_front();
  flush_done();
}

void Session::flush_done() {
  while (!row_.empty() && row_.front()->done) {
    stream_->output().append(row_.front()->reply);
    row_.pop_front();
  }
  if ((stopped_ & kEnding) != 0) {
    if (row_.empty()) end();
    return;
  }
  if (row_.size() < options_.session_pipeline_max / 2) go_on(kManyReplies);
  if (stream_->unsent_bytes() > kUnsentMax) stop(kSlowReader);
}

void Session::stop(Stop why) {
  if (stopped_ == 0) stream_->pause_reading();
  stopped_ |= why;
}

void Session::go_on(Stop why) {
  if ((stopped_ & why) == 0) return;
  stopped_ &= ~static_cast<unsigned>(why);
  if (stopped_ == 0) stream_->resume_reading();
}

// No more requests are read; the connection closes when the replies due are out.
void Session::end() {
  stop(kEnding);
  if (!row_.empty()) return;
  stream_->close_after_flush();
  if (on_end_) loop_.post(std::move(on_end_));
  on_end_ = nullptr;
}

void Session::on_closed(const Status&) {
  for (const auto& pending : row_) pending->session = nullptr;
  row_.clear();
  if (on_end_) loop_.post(std::move(on_end_));
  on_end_ = nullptr;
}

}  // namespace sf::codis
