#include "tests/fuzz/fuzz_driver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "common/base/strings.h"
#include "common/resp/encoder.h"

namespace sf::fuzz {
namespace {

std::atomic<uint64_t> seed_at_work{0};
const char* target_name = "fuzz";

void tell_seed(int signal) {
  // The process is ending; nothing else writes any more.
  std::fprintf(stderr, "%s: signal %d at seed %llu; repeat with --seed %llu --once\n", target_name,
               signal, static_cast<unsigned long long>(seed_at_work.load()),
               static_cast<unsigned long long>(seed_at_work.load()));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

uint64_t number_after(int argc, char** argv, const char* flag, uint64_t usual) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], flag) == 0) return std::strtoull(argv[i + 1], nullptr, 10);
  }
  return usual;
}

bool has_flag(int argc, char** argv, const char* flag) {
  return std::any_of(argv + 1, argv + argc,
                     [&](const char* word) { return std::strcmp(word, flag) == 0; });
}

}  // namespace

int run(const char* name, int argc, char** argv, const std::function<void(Random&)>& body) {
  target_name = name;
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL}) std::signal(signal, tell_seed);
  const uint64_t first = number_after(argc, argv, "--seed", 1);
  const uint64_t seconds =
      number_after(argc, argv, "--seconds", has_flag(argc, argv, "--long") ? 600 : 5);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  uint64_t seed = first;
  do {
    seed_at_work = seed;
    Random random(seed++);
    body(random);
  } while (!has_flag(argc, argv, "--once") && std::chrono::steady_clock::now() < end);
  std::printf("%s: seeds %llu to %llu clean\n", name, static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(seed - 1));
  return 0;
}

void spoil(Random& random, std::string& bytes, uint64_t most) {
  const uint64_t changes = random.below(most + 1);
  for (uint64_t i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = random.below(bytes.size());
    const size_t size = std::min<size_t>(1 + random.below(8), bytes.size() - at);
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random.below(6)) {
      case 0:
        bytes[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        bytes.erase(at, size);
        break;
      case 2:
        bytes.insert(place, static_cast<char>(random.below(256)));
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, size));
        break;
      case 4:
        std::swap(bytes[at], bytes[random.below(bytes.size())]);
        break;
      default:
        bytes.insert(at, std::to_string(random.below(3) == 0 ? random.next() : random.below(99)));
    }
  }
}

std::string some_word(Random& random, const std::vector<std::string>& words) {
  static const char* const numbers[] = {"0",
                                        "-1",
                                        "1",
                                        "1023",
                                        "1024",
                                        "2147483648",
                                        "4294967296",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "18446744073709551615",
                                        "1e308",
                                        "nan"};
  switch (random.below(6)) {
    case 0:
      return numbers[random.below(std::size(numbers))];
    case 1:
      return random.below(2) == 0 ? "" : std::string(random.below(300), '\0');
    case 2: {
      std::string out(random.below(40), ' ');
      for (char& c : out) c = static_cast<char>(random.below(256));
      return out;
    }
    default:
      return words[random.below(words.size())];
  }
}

std::string some_request(Random& random, const std::vector<std::string>& names,
                         const std::vector<std::string>& words) {
  std::string out;
  const size_t more = random.below(7);
  if (random.below(12) == 0) {
    out = names[random.below(names.size())];
    for (size_t i = 0; i < more; ++i) out += " " + some_word(random, words);
    return out + (random.below(2) == 0 ? "\n" : "\r\n");
  }
  resp::array(out, 1 + more);
  resp::bulk(out, names[random.below(names.size())]);
  for (size_t i = 0; i < more; ++i) resp::bulk(out, some_word(random, words));
  return out;
}

std::string some_reply(Random& random, int depth) {
  std::string out;
  switch (random.below(depth > 0 ? 6 : 5)) {
    case 0:
      resp::status(out, "OK");
      break;
    case 1:
      resp::error(out, "ERR something");
      break;
    case 2:
      resp::integer(out, static_cast<int64_t>(random.next()));
      break;
    case 3:
      resp::bulk(out, std::string(random.below(random.below(8) == 0 ? 60'000 : 40), 'x'));
      break;
    case 4:
      random.below(2) == 0 ? resp::nil(out) : resp::nil_array(out);
      break;
    default: {
      const size_t count = random.below(5);
      resp::array(out, count);
      for (size_t i = 0; i < count; ++i) out += some_reply(random, depth - 1);
    }
  }
  return out;
}

std::vector<size_t> some_cuts(Random& random, size_t size) {
  std::vector<size_t> out{size};
  for (uint64_t i = random.below(6); i > 0; --i) out.push_back(random.below(size + 1));
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace sf::fuzz
