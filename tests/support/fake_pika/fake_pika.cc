#include "tests/support/fake_pika/fake_pika.h"

#include <algorithm>
#include <future>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/base/strings.h"
#include "common/net/socket.h"
#include "common/net/uv_loop.h"
#include "common/resp/encoder.h"
#include "common/slots/slot_hash.h"
#include "tests/support/fake_pika/answers.h"

namespace sf::fake_pika {
namespace {

// A peer on the server's own host is listed by the interface's address (seen with 3.5.5).
std::string as_listed(const std::string& peer) {
  const std::string loopback = "127.0.0.1:";
  const std::set<std::string> here = interface_addresses();
  if (!peer.starts_with(loopback) || here.empty()) return peer;
  return cat(*here.begin(), ":", peer.substr(loopback.size()));
}

}  // namespace

class FakePika::Connection final : public StreamHandler {
 public:
  Connection(FakePika& server, int id, std::unique_ptr<AcceptedSocket> socket)
      : server_(server),
        id_(id),
        peer_(socket->peer()),
        stream_(server.loop_->adopt(std::move(socket), this)) {}
  ~Connection() override { leave_feed(); }

  size_t on_data(std::string_view unread) override {
    size_t used = 0;
    while (used < unread.size() && !gone_) {
      Request request;
      const auto outcome = parser_.parse(unread.substr(used), &request);
      if (outcome == RequestParser::Outcome::kError) return unread.size();
      used += parser_.consumed();
      if (outcome == RequestParser::Outcome::kNeedMore) break;
      const Words argv(request.argv.begin(), request.argv.end());
      const std::string reply = server_.answer(this, argv);
      if (!reply.empty() && !gone_) stream_->write(reply);
    }
    return used;
  }
  void on_closed(const Status&) override { end(); }

  void end() {
    if (gone_) return;
    gone_ = true;
    leave_feed();
    server_.loop_->post([&server = server_, id = id_] { server.connections_.erase(id); });
  }
  void close() {
    stream_->close_after_flush();
    end();
  }
  void send(const Words& words) {
    std::vector<std::string_view> views(words.begin(), words.end());
    std::string out;
    resp::request(out, views);
    if (!gone_) stream_->write(out);
  }

  void send_raw(const std::string& bytes) {
    if (!gone_) stream_->write(bytes);
  }

  int db = 0;
  bool authenticated = false;
  Unit* fed = nullptr;
  std::shared_ptr<Feed> feed;
  const std::string& peer() const { return peer_; }
  int id() const { return id_; }

 private:
  void leave_feed() {
    if (fed != nullptr) fed->forget(feed);
    fed = nullptr;
  }
  FakePika& server_;
  const int id_;
  const std::string peer_;
  std::unique_ptr<Stream> stream_;
  RequestParser parser_;
  bool gone_ = false;
};

FakePika::FakePika(PikaOptions options) : options_(std::move(options)), loop_(make_uv_loop()) {
  run_id_ = Random(Random::system_seed()).hex(40);
  started_ms_ = loop_->wall_ms() - 600'000;  // up for ten minutes
  host_.loop = loop_.get();
  host_.faults = &faults_;
  host_.replication_id = [this] { return replication_id_; };
  host_.adopt_id = [this](const std::string& id) { replication_id_ = id; };
  host_.port = [this] { return options_.announced_port != 0 ? options_.announced_port : port_; };
  host_.password = options_.password;
  host_.workers = options_.sync_threads;
  host_.file_size = options_.binlog_file_size;
  faults_.lag_by_sent = !options_.sharding;
  if (!options_.sharding) {
    for (int db = 0; db < options_.databases; ++db) {
      units_[db] = std::make_unique<Unit>(cat("db", db), &host_);
    }
  }
  if (!options_.slots.empty()) {
    for (int slot : range_of(options_.slots, options_.slot_num)) add_slot(slot);
  }
  thread_ = std::thread([this] { loop_->run(); });
  run([this] { listen(options_.port); });
}

FakePika::~FakePika() {
  run([this] {
    listener_.reset();
    for (auto& [id, unit] : units_) unit->leave();
    connections_.clear();
    units_.clear();
  });
  loop_->stop();
  thread_.join();
}

void FakePika::run(const std::function<void()>& fn) {
  std::promise<void> done;
  loop_->post([&] {
    fn();
    done.set_value();
  });
  done.get_future().wait();
}

std::string FakePika::call(const Words& argv) {
  std::string out;
  run([&] { out = answer(nullptr, argv); });
  return out;
}

void FakePika::listen(int port) {
  auto listener = loop_->listen("127.0.0.1", port, [this](std::unique_ptr<AcceptedSocket> socket) {
    const int id = ++accepted_;
    connections_[id] = std::make_unique<Connection>(*this, id, std::move(socket));
  });
  SF_CHECK(listener.is_ok());
  listener_ = std::move(*listener);
  port_ = listener_->port();
}

void FakePika::add_slot(int slot) {
  units_[slot] = std::make_unique<Unit>(std::to_string(slot), &host_);
}

Unit* FakePika::unit_named(const std::string& name) {
  for (auto& [id, unit] : units_) {
    if (unit->name() == name) return unit.get();
  }
  return nullptr;
}

Unit* FakePika::unit_of(int db, const std::string& key) {
  const int id =
      options_.sharding
          ? static_cast<int>(crc32_ieee(hash_tag(key)) % static_cast<uint32_t>(options_.slot_num))
          : db;
  const auto found = units_.find(id);
  return found == units_.end() ? nullptr : found->second.get();
}

bool FakePika::is_slave() const {
  return !options_.sharding && units_.begin()->second->is_replica();
}

std::string FakePika::answer(Connection* connection, const Words& argv) {
  const std::string name = to_lower(argv[0]);
  if (name == "fake") return fake(argv);
  if (wedged_) return "";
  if (name == silent_ && connection != nullptr) {
    waiting_.emplace_back(connection->id(), argv);
    return "";
  }
  const bool asks = connection != nullptr && !connection->authenticated;
  if (name == "auth") {
    if (options_.password.empty()) return error("Client sent AUTH, but no password is set");
    if (argv.size() < 2 || argv[1] != options_.password) return error("invalid password");
    if (connection != nullptr) connection->authenticated = true;
    return ok();
  }
  if (asks && !options_.password.empty()) return error("NOAUTH Authentication required.");
  std::string reply;
  if (name == "ping") {
    reply = "+PONG\r\n";
  } else if (name == "select") {
    const auto db = parse_int64(argv.at(1));
    if (!db || *db < 0 || *db >= options_.databases) return error("invalid DB index");
    if (connection != nullptr) connection->db = static_cast<int>(*db);
    reply = ok();
  } else if (name == "time") {
    const int64_t ms = loop_->wall_ms();
    reply = cat("*2\r\n", bulk(std::to_string(ms / 1000)), bulk(std::to_string(ms % 1000 * 1000)));
  } else if (name == "info") {
    reply = info(argv);
  } else if (name == "config") {
    reply = config(argv);
  } else if (name == "client") {
    reply = client(argv);
  } else if (name == "slaveof") {
    if (connection != nullptr && leaves_slowly(argv)) return leave_later(connection->id(), argv);
    reply = slave_of(argv);
  } else if (name == "pkcluster") {
    reply = cluster(argv);
  } else if (name == "slotsinfo") {
    reply = slots_info();
  } else if (name == "slotsscan") {
    reply = slots_scan(argv);
  } else if (options_.sharding && (name == "keys" || name == "scan")) {
    reply = error("This command is not supported in current configuration");
  } else if (name == "purgelogsto") {
    for (auto& [id, unit] : units_) {
      if (faults_.endless_copy) unit->purged_ = true;
      unit->feeds_.clear();
    }
    for (auto& [id, other] : connections_) {
      if (other->fed != nullptr) other->close();
    }
    reply = ok();
  } else if (name == "fake.sync") {
    return sync(connection, argv);
  } else if (name == "fake.ack") {
    acked(connection, argv);
    return "";
  } else {
    reply = data_command(connection == nullptr ? 0 : connection->db, argv);
  }
  for (size_t i = 0; i < staged_.size();) {
    if (staged_[i].command == name && --staged_[i].left == 0) {
      const Words late = staged_[i].argv;
      staged_.erase(staged_.begin() + static_cast<std::ptrdiff_t>(i));
      (void)answer(nullptr, late);
    } else {
      ++i;
    }
  }
  return reply;
}

std::string FakePika::data_command(int db, const Words& argv) {
  const std::string name = to_lower(argv[0]);
  if (options_.sharding && argv.size() > 2 &&
      (name == "mget" || name == "mset" || name == "del" || name == "exists")) {
    return scattered(argv);
  }
  Unit* unit = unit_of(db, argv.size() > 1 ? argv[1] : "");
  if (unit == nullptr && name == "dbsize") return ":0\r\n";
  if (unit == nullptr) return error("Partition not found");
  if (unit->is_replica() && Keyspace::is_write(name)) {
    return options_.sharding ? error("Server in read-only")
                             : error("READONLY You can't write against a read only replica.");
  }
  const auto done = unit->data().execute(argv, loop_->wall_ms() / 1000, faults_.of_log());
  if (!done) return cat("-ERR unknown command \"", argv[0], "\"\r\n");
  unit->write(done->logs);
  return done->reply;
}

// Several keys of several slots: one after the other, as 3.4 does.
std::string FakePika::scattered(const Words& argv) {
  const std::string name = to_lower(argv[0]);
  const size_t step = name == "mset" ? 2 : 1;
  std::string values;
  int64_t sum = 0;
  for (size_t i = 1; i + step <= argv.size(); i += step) {
    Words one{name == "mget" ? "get" : name == "mset" ? "set" : name, argv[i]};
    if (step == 2) one.push_back(argv[i + 1]);
    const std::string reply = data_command(0, one);
    if (reply[0] == '-') return reply;
    if (reply[0] == ':') sum += parse_int64(trim(std::string_view(reply).substr(1))).value_or(0);
    values += reply;
  }
  if (name == "mset") return ok();
  if (name == "mget") return cat("*", argv.size() - 1, "\r\n", values);
  return cat(":", sum, "\r\n");
}

std::string FakePika::sync(Connection* connection, const Words& argv) {
  Unit* unit = unit_named(argv.at(1));
  if (connection == nullptr || unit == nullptr) return "";
  if (replication_id_.empty() && !options_.sharding) {
    replication_id_ = Random(Random::system_seed()).hex(50);
  }
  if (connection->feed == nullptr) {
    connection->feed = std::make_shared<Feed>();
    connection->feed->address = cat("127.0.0.1:", argv.at(2));
    connection->feed->send = [this, id = connection->id()](const Words& words) {
      const auto found = connections_.find(id);
      if (found != connections_.end()) found->second->send(words);
    };
  }
  connection->fed = unit;
  const Offset at{static_cast<uint32_t>(parse_uint64(argv.at(4)).value_or(0)),
                  parse_uint64(argv.at(5)).value_or(0)};
  unit->serve(connection->feed, argv.at(3).substr(2), at, argv.at(6) == "force");
  return "";
}

void FakePika::acked(Connection* connection, const Words& argv) {
  if (connection == nullptr || connection->feed == nullptr) return;
  connection->feed->acked = {static_cast<uint32_t>(parse_uint64(argv.at(1)).value_or(0)),
                             parse_uint64(argv.at(2)).value_or(0)};
}

bool FakePika::set_fault(const std::string& name, int64_t value) {
  const std::map<std::string, bool*> flags = {{"ack_before_apply", &faults_.ack_before_apply},
                                              {"late_apply", &faults_.late_apply},
                                              {"queue_lost_on_kill", &faults_.queue_lost_on_kill},
                                              {"ttl_lost", &faults_.ttl_lost},
                                              {"append_empty", &faults_.append_empty},
                                              {"timed_lost", &faults_.timed_lost},
                                              {"ttl_short", &faults_.ttl_short},
                                              {"no_streams_in_copy", &faults_.no_streams_in_copy},
                                              {"lag_by_sent", &faults_.lag_by_sent},
                                              {"wedge", &faults_.wedge},
                                              {"endless_copy", &faults_.endless_copy}};
  const std::map<std::string, int64_t*> numbers = {{"apply_delay_ms", &faults_.apply_delay_ms},
                                                   {"copy_ms", &faults_.copy_ms},
                                                   {"attach_ms", &faults_.attach_ms},
                                                   {"leave_ms", &faults_.leave_ms}};
  if (const auto flag = flags.find(name); flag != flags.end()) *flag->second = value != 0;
  if (const auto number = numbers.find(name); number != numbers.end()) *number->second = value;
  return flags.contains(name) || numbers.contains(name);
}

std::string FakePika::client(const Words& argv) {
  const std::string verb = to_lower(argv.at(1));
  if (verb == "list") {
    std::string lines;
    for (const auto& [id, connection] : connections_) {
      // Replication has a port of its own there: its connections are not listed.
      if (connection->fed == nullptr) {
        lines += cat("addr=", as_listed(connection->peer()), " fd=", 70 + id, " idle=0\n");
      }
    }
    return bulk(lines);
  }
  if (verb == "kill") {
    for (auto& [id, connection] : connections_) {
      if (argv.at(2) == "all" || connection->peer() == argv.at(2)) connection->close();
    }
    return ok();
  }
  if (verb == "setname") return ok();
  return error("Syntax error, try CLIENT (LIST [order by [addr|idle]| KILL ip:port)");
}

std::string FakePika::fake(const Words& argv) {
  const std::string verb = to_lower(argv.at(1));
  if (verb == "set") {
    return set_fault(argv.at(2), parse_int64(argv.at(3)).value_or(0)) ? ok()
                                                                      : error("no such switch");
  }
  if (verb == "crash") {
    loop_->post([this] { crash(); });
    return ok();
  }
  if (verb == "late") {
    const Words late(argv.begin() + 3, argv.end());
    loop_->call_after(parse_int64(argv.at(2)).value_or(0) * 1000,
                      [this, late] { (void)answer(nullptr, late); });
    return ok();
  }
  if (verb == "on") {
    staged_.push_back({to_lower(argv.at(2)), static_cast<int>(parse_int64(argv.at(3)).value_or(1)),
                       Words(argv.begin() + 4, argv.end())});
    return ok();
  }
  if (verb == "silent") {
    silent_ = argv.at(2) == "no" ? "" : to_lower(argv.at(2));
    const auto waiting = std::exchange(waiting_, {});
    for (const auto& [id, late] : waiting) {
      const auto found = connections_.find(id);
      send_to(id, answer(found == connections_.end() ? nullptr : found->second.get(), late));
    }
    return ok();
  }
  if (verb == "queued") {
    size_t queued = 0;
    for (const auto& [id, unit] : units_) queued += unit->queued();
    return cat(":", queued, "\r\n");
  }
  return error("unknown FAKE command");
}

void FakePika::send_to(int connection_id, const std::string& reply) {
  const auto found = connections_.find(connection_id);
  if (found != connections_.end()) found->second->send_raw(reply);
}

void FakePika::crash() {
  for (auto& [id, unit] : units_) unit->crash();
  for (auto& [id, connection] : connections_) connection->close();
  wedged_ = false;
  ++starts_;  // its run id is kept in the file of settings
  started_ms_ = loop_->wall_ms();
  slaveof_ = written_slaveof_;
  const auto master = parse_host_port(slaveof_);
  if (!master) return;
  for (auto& [id, unit] : units_) unit->follow(master->host, master->port, false);
}

}  // namespace sf::fake_pika
