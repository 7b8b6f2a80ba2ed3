#include "proxy_shim/control/resp_client.h"

#include <hiredis/hiredis.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/random.h"

namespace sf {
namespace {

constexpr int64_t kShortestMs = 10;  // for an answer, however little of a bound is left

timeval to_timeval(int64_t ms) {
  ms = std::max<int64_t>(ms, 1);
  return {static_cast<time_t>(ms / 1000), static_cast<suseconds_t>(ms % 1000 * 1000)};
}

Reply to_reply(const redisReply& from) {
  Reply out;
  switch (from.type) {
    case REDIS_REPLY_STATUS:
      out.type = Reply::Type::kStatus;
      out.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_ERROR:
      out.type = Reply::Type::kError;
      out.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_INTEGER:
      out.type = Reply::Type::kInteger;
      out.integer = from.integer;
      break;
    case REDIS_REPLY_STRING:
      out.type = Reply::Type::kBulk;
      out.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_ARRAY:
      out.type = Reply::Type::kArray;
      for (size_t i = 0; i < from.elements; ++i) {
        out.elements.push_back(to_reply(*from.element[i]));
      }
      break;
    default:
      out.type = Reply::Type::kNil;
  }
  return out;
}

}  // namespace

RespClient::RespClient(HostPort address, std::string password, std::string name)
    : address_(std::move(address)), password_(std::move(password)), name_(std::move(name)) {}

RespClient::~RespClient() {
  close();
}

void RespClient::close() {
  if (context_ != nullptr) redisFree(context_);
  context_ = nullptr;
  late_ = 0;
}

Status RespClient::connect(int64_t timeout_ms) {
  if (context_ != nullptr) return Status::ok();
  context_ = redisConnectWithTimeout(address_.host.c_str(), address_.port, to_timeval(timeout_ms));
  if (context_ == nullptr) return Status::unavailable("out of memory");
  if (context_->err != 0) {
    const std::string why = context_->errstr;
    close();
    return Status::unavailable(cat(address_.text(), " cannot be reached: ", why));
  }
  Status status = authenticate(timeout_ms);
  if (status && end_abandoned_) status = end_abandoned(timeout_ms);
  if (!status) close();
  return status;
}

Status RespClient::authenticate(int64_t timeout_ms) {
  if (!password_.empty()) {
    Result<Reply> reply = exchange({"AUTH", password_}, timeout_ms);
    if (!reply) return reply.status();
    // Redis and Pika without a password refuse AUTH; that is no reason to stay away.
    const bool none_set = reply->is_error() && reply->text.find("no password") != std::string::npos;
    if (reply->is_error() && !none_set) {
      return Status::refused(
          cat(address_.text(), " refuses the password of the plan: ", reply->text));
    }
  }
  Result<Reply> named = exchange({"CLIENT", "SETNAME", name_}, timeout_ms);
  if (!named) return named.status();
  if (named->is_error() && named->text.find("NOAUTH") != std::string::npos) {
    return Status::refused(cat(address_.text(), " asks for a password and the plan has none"));
  }
  return Status::ok();
}

Status RespClient::end_abandoned(int64_t timeout_ms) {
  if (abandoned_ != 0) {
    // An error says that the server has no such connection any more, which is as good.
    Result<Reply> ended =
        exchange({"CLIENT", "KILL", "ID", std::to_string(abandoned_)}, timeout_ms);
    if (!ended) return ended.status();
    abandoned_ = 0;
  }
  Result<Reply> id = exchange({"CLIENT", "ID"}, timeout_ms);
  if (!id) return id.status();
  if (!id->is_error()) {
    id_ = id->integer;
    return Status::ok();
  }
  const Result<int64_t> found = find_id(timeout_ms);
  if (found) id_ = *found;
  return found.status();
}

// CLIENT ID came with Redis 5; a name nobody else has tells the line just as well, also where
// addresses are translated on the way.
Result<int64_t> RespClient::find_id(int64_t timeout_ms) {
  const std::string unique = cat(name_, "-", Random(Random::system_seed()).hex(16));
  Result<std::vector<Reply>> replies = exchange_all(
      {{"CLIENT", "SETNAME", unique}, {"CLIENT", "LIST"}, {"CLIENT", "SETNAME", name_}},
      timeout_ms);
  if (!replies) return replies.status();
  for (std::string_view line : split((*replies)[1].text, '\n')) {
    if (line.find(cat(" name=", unique, " ")) == std::string_view::npos) continue;
    const std::string_view id = line.substr(0, line.find(' '));
    const auto number = parse_int64(id.starts_with("id=") ? id.substr(3) : "");
    if (number) return *number;
  }
  return Status::refused(cat(address_.text(), " does not show our connection in CLIENT LIST"));
}

Result<Reply> RespClient::exchange(const std::vector<std::string>& argv, int64_t timeout_ms) {
  Result<std::vector<Reply>> replies = exchange_all({argv}, timeout_ms);
  if (!replies) return replies.status();
  return std::move(replies->front());
}

Result<std::vector<Reply>> RespClient::exchange_all(
    const std::vector<std::vector<std::string>>& requests, int64_t timeout_ms) {
  const Status late = read_late(timeout_ms);
  if (!late) return late;
  late_since_ = std::chrono::steady_clock::now();
  for (const std::vector<std::string>& argv : requests) {
    std::vector<const char*> parts;
    std::vector<size_t> sizes;
    for (const std::string& arg : argv) {
      parts.push_back(arg.data());
      sizes.push_back(arg.size());
    }
    redisAppendCommandArgv(context_, static_cast<int>(parts.size()), parts.data(), sizes.data());
    ++late_;
  }
  std::vector<Reply> out;
  for (const std::vector<std::string>& argv : requests) {
    Result<Reply> reply = next_reply(argv[0], timeout_ms);
    if (!reply) return reply.status();
    out.push_back(std::move(*reply));
  }
  return out;
}

Status RespClient::read_late(int64_t timeout_ms) {
  while (late_ > 0) {
    Result<Reply> reply = next_reply("an earlier request", timeout_ms);
    if (!reply) return reply.status();
  }
  return Status::ok();
}

// As redisGetReply(), but late to the microsecond: the kernel rounds a socket's own timeout up to
// its ticks, 10 ms and one more at 100 Hz, and requests may be held meanwhile. Not ok: `late`, or
// the context says why.
bool RespClient::read_reply(void** raw, int64_t timeout_ms, bool* late) {
  using std::chrono::steady_clock;
  const auto deadline =
      steady_clock::now() + std::chrono::milliseconds(std::max(timeout_ms, kShortestMs));
  redisSetTimeout(context_, to_timeval(timeout_ms));  // of what is sent
  for (int sent = 0; sent == 0;) {
    if (redisBufferWrite(context_, &sent) != REDIS_OK) {
      *late = context_->err == REDIS_ERR_IO && (errno == EAGAIN || errno == EWOULDBLOCK);
      return false;
    }
  }
  for (;;) {
    if (redisGetReplyFromReader(context_, raw) != REDIS_OK) return false;
    if (*raw != nullptr) return true;
    const auto left = std::max(deadline - steady_clock::now(), steady_clock::duration::zero());
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(left).count();
    const timespec wait{us / 1'000'000, us % 1'000'000 * 1000};
    pollfd readable{context_->fd, POLLIN, 0};
    const int ready = ppoll(&readable, 1, &wait, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    *late = ready == 0;
    if (*late || redisBufferRead(context_) != REDIS_OK) return false;
  }
}

Result<Reply> RespClient::next_reply(const std::string& command, int64_t timeout_ms) {
  void* raw = nullptr;
  bool late = false;
  if (!read_reply(&raw, timeout_ms, &late)) {
    const std::string why = context_->errstr;
    const auto waited = std::chrono::steady_clock::now() - late_since_;
    if (late && keeps_late_ && waited < std::chrono::milliseconds(kLateMaxMs)) {
      // hiredis refuses a context with an error; this one only waits.
      context_->err = 0;
      context_->errstr[0] = '\0';
    } else {
      if (id_ != 0) abandoned_ = std::exchange(id_, 0);
      close();
    }
    return Status::timeout(
        late ? cat(address_.text(), " gave no answer to ", command, " within ", timeout_ms, " ms")
             : cat("connection to ", address_.text(), " broke: ", why));
  }
  --late_;
  auto* reply = static_cast<redisReply*>(raw);
  Reply out = to_reply(*reply);
  freeReplyObject(reply);
  return out;
}

Result<Reply> RespClient::call(const std::vector<std::string>& argv, int64_t timeout_ms) {
  Status status = connect(timeout_ms);
  if (!status) return status;
  return exchange(argv, timeout_ms);
}

Result<Reply> RespClient::ask(const std::vector<std::string>& argv, int64_t timeout_ms) {
  Result<Reply> reply = call(argv, timeout_ms);
  if (reply && reply->is_error()) {
    return Status::refused(cat(address_.text(), " answers ", argv[0], " with ", reply->text));
  }
  return reply;
}

Result<std::vector<Reply>> RespClient::ask_all(
    const std::vector<std::vector<std::string>>& requests, int64_t timeout_ms) {
  Result<std::vector<Reply>> replies = call_all(requests, timeout_ms);
  if (!replies) return replies;
  for (size_t i = 0; i < replies->size(); ++i) {
    const Reply& reply = (*replies)[i];
    if (!reply.is_error()) continue;
    return Status::refused(cat(address_.text(), " answers ", requests[i][0], " with ", reply.text));
  }
  return replies;
}

Result<std::vector<Reply>> RespClient::call_all(
    const std::vector<std::vector<std::string>>& requests, int64_t timeout_ms) {
  Status status = connect(timeout_ms);
  if (!status) return status;
  return exchange_all(requests, timeout_ms);
}

Status RespClient::ask_ok(const std::vector<std::string>& argv, int64_t timeout_ms) {
  Result<Reply> reply = ask(argv, timeout_ms);
  if (!reply) return reply.status();
  if (reply->is_ok()) return Status::ok();
  return Status::corrupt(cat(address_.text(), " answers ", argv[0], " neither +OK nor an error"));
}

std::string info_field(std::string_view info, std::string_view field) {
  for (std::string_view line : split(info, '\n')) {
    line = trim(line);
    if (line.size() > field.size() && line.starts_with(field) && line[field.size()] == ':') {
      return std::string(trim(line.substr(field.size() + 1)));
    }
  }
  return "";
}

const Reply* flat_field(const Reply& reply, std::string_view name) {
  for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    if (reply.elements[i].text == name) return &reply.elements[i + 1];
  }
  return nullptr;
}

}  // namespace sf
