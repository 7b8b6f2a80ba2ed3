#include "migrator/peer.h"

#include <hiredis/hiredis.h>
#include <sys/time.h>

#include <cerrno>

namespace sf {
namespace {

timeval to_timeval(int ms) {
  return {ms / 1000, (ms % 1000) * 1000};
}

bool is_loading(const Reply& reply) {
  return reply.is_error() && reply.text.starts_with("LOADING");
}

Reply convert(const redisReply& from) {
  Reply reply;
  switch (from.type) {
    case REDIS_REPLY_STATUS:
      reply.type = Reply::Type::kStatus;
      reply.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_ERROR:
      reply.type = Reply::Type::kError;
      reply.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_STRING:
      reply.type = Reply::Type::kBulk;
      reply.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_INTEGER:
      reply.type = Reply::Type::kInteger;
      reply.integer = from.integer;
      break;
    case REDIS_REPLY_ARRAY:
      reply.type = Reply::Type::kArray;
      reply.items.reserve(from.elements);
      for (size_t i = 0; i < from.elements; ++i) reply.items.push_back(convert(*from.element[i]));
      break;
    default:
      reply.type = Reply::Type::kNil;
  }
  return reply;
}

}  // namespace

std::string Reply::word() const {
  return type == Type::kInteger ? std::to_string(integer) : text;
}

Peer::Peer(PeerOptions options) : options_(std::move(options)) {}
Peer::~Peer() {
  disconnect();
}

void Peer::disconnect() {
  if (context_ != nullptr) redisFree(context_);
  context_ = nullptr;
}

// Whether the request reached the peer is unknown once something was written.
Status Peer::broken(const char* doing) {
  std::string why = context_->errstr;
  if (context_->err == REDIS_ERR_IO && (errno == EAGAIN || errno == EWOULDBLOCK))
    why = "no answer in time";
  disconnect();
  return Status::timeout(cat(label(), " broke off while ", doing, " (", why, ")"));
}

Status Peer::connect() {
  if (context_ != nullptr) return Status::ok();
  const HostPort& to = options_.address;
  context_ =
      redisConnectWithTimeout(to.host.c_str(), to.port, to_timeval(options_.connect_timeout_ms));
  if (context_ == nullptr || context_->err != 0) {
    const std::string why = context_ == nullptr ? "out of memory" : context_->errstr;
    disconnect();
    return Status::unavailable(
        cat(label(), " cannot be reached (", why, "); start it or correct its address"));
  }
  redisEnableKeepAlive(context_);
  redisSetTimeout(context_, to_timeval(options_.timeout_ms));
  applied_timeout_ms_ = options_.timeout_ms;
  const Status status = greet();
  if (!status) disconnect();
  return status;
}

Status Peer::greet() {
  if (!options_.password.empty()) {
    Status sent = append({"AUTH", options_.password});
    if (!sent) return sent;
    const auto reply = read_reply();
    if (!reply) return reply.status();
    if (reply->is_error()) {
      return Status::invalid(cat(label(), " refuses the password (", reply->text, "); correct ",
                                 options_.password_key));
    }
  }
  for (const Argv& greeting : options_.greetings) {
    Status sent = append(greeting);
    if (!sent) return sent;
    const auto reply = read_reply();
    if (!reply) return reply.status();
    if (is_loading(*reply)) return loading();
    if (reply->is_error()) {
      return Status::refused(cat(label(), " answers ", greeting.front(), " with: ", reply->text));
    }
  }
  return Status::ok();
}

// For a moment only: after a start, and after the copy of a replica.
Status Peer::loading() const {
  return Status::unavailable(cat(label(), " is loading its data"));
}

Status Peer::append(const Argv& argv) {
  std::vector<const char*> data;
  std::vector<size_t> sizes;
  for (const std::string& arg : argv) {
    data.push_back(arg.data());
    sizes.push_back(arg.size());
  }
  const int argc = static_cast<int>(argv.size());
  if (redisAppendCommandArgv(context_, argc, data.data(), sizes.data()) != REDIS_OK) {
    return broken("being sent a request");
  }
  return Status::ok();
}

Result<Reply> Peer::read_reply() {
  void* raw = nullptr;
  if (redisGetReply(context_, &raw) != REDIS_OK || raw == nullptr) return broken("answering");
  Reply reply = convert(*static_cast<redisReply*>(raw));
  freeReplyObject(raw);
  return reply;
}

Result<Reply> Peer::call(const Argv& argv) {
  return call(argv, options_.timeout_ms);
}

Result<Reply> Peer::call(const Argv& argv, int timeout_ms) {
  Status status = connect();
  if (!status) return status;
  if (timeout_ms != applied_timeout_ms_) {
    redisSetTimeout(context_, to_timeval(timeout_ms));
    applied_timeout_ms_ = timeout_ms;
  }
  status = append(argv);
  if (!status) return status;
  return read_reply();
}

Result<Reply> Peer::expect(const Argv& argv) {
  return expect(argv, options_.timeout_ms);
}

Result<Reply> Peer::expect(const Argv& argv, int timeout_ms) {
  auto reply = call(argv, timeout_ms);
  if (!reply) return reply.status();
  if (!reply->is_error()) return reply;
  if (is_loading(*reply)) return loading();
  if (reply->text.starts_with("NOAUTH")) {
    return Status::invalid(cat(label(), " wants a password; set ", options_.password_key));
  }
  return Status::refused(cat(label(), ": ", reply->text));
}

Status Peer::send(const std::vector<Argv>& requests) {
  Status status = connect();
  if (!status) return status;
  for (const Argv& argv : requests) {
    status = append(argv);
    if (!status) return status;
  }
  for (int done = 0; done == 0;) {
    if (redisBufferWrite(context_, &done) != REDIS_OK) return broken("being sent requests");
  }
  return Status::ok();
}

Result<std::vector<Reply>> Peer::receive(size_t count) {
  if (context_ == nullptr) return Status::timeout(cat(label(), " broke off"));
  std::vector<Reply> replies;
  replies.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    auto reply = read_reply();
    if (!reply) return reply.status();
    replies.push_back(std::move(*reply));
  }
  return replies;
}

Result<std::vector<Reply>> Peer::pipeline(const std::vector<Argv>& requests) {
  const Status sent = send(requests);
  if (!sent) return sent;
  return receive(requests.size());
}

}  // namespace sf
