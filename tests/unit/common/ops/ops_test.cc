#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/random.h"
#include "common/ops/config_file.h"
#include "common/ops/histogram.h"
#include "common/ops/log.h"
#include "common/ops/process.h"
#include "common/ops/settings.h"
#include "tests/support/temp_dir.h"

namespace sf {
namespace {

std::vector<SettingSpec> specs() {
  using Kind = SettingSpec::Kind;
  return {{"port", "9221", "port for clients", Kind::kInteger, 1, 65535},
          {"dir", "./db", "state folder", Kind::kText, 0, 0},
          {"max-bytes", "64mb", "largest reply", Kind::kBytes, 1024, INT64_MAX},
          {"init", "no", "first start", Kind::kFlag, 0, 0}};
}

Status parse(Settings& settings, std::vector<std::string> words) {
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return settings.parse(static_cast<int>(argv.size()), argv.data(), "slotferry-test", "a test");
}

TEST_CASE("config file: comments, order and untouched lines survive a change") {
  const std::string text =
      "# Pika's file\nport : 9221\n\n  # indented\nrequirepass :\nlog-path:./log/\nurl : a:b:c\n";
  auto file = ConfigFile::parse(text, "pika.conf");
  REQUIRE(file.is_ok());
  CHECK(file->get("port") == "9221");
  CHECK(file->get("requirepass") == "");
  CHECK(file->get("log-path") == "./log/");
  CHECK(file->get("url") == "a:b:c");
  CHECK_FALSE(file->get("absent").has_value());
  CHECK(file->text() == text);
  file->set("port", "9222");
  file->set("log-path", "./log/");
  file->set("new", "x");
  file->erase("url");
  TempDir dir;
  REQUIRE(file->save(dir.sub("pika.conf")));
  auto again = read_file(dir.sub("pika.conf"));
  REQUIRE(again.is_ok());
  CHECK(*again ==
        "# Pika's file\nport : 9222\n\n  # indented\nrequirepass :\nlog-path:./log/\nnew : x\n");
  CHECK(again.value().find("url") == std::string::npos);
  CHECK(file->keys() == std::vector<std::string>{"port", "requirepass", "log-path", "new"});
}

TEST_CASE("config file: a bad line and a double key are named by number") {
  auto bad = ConfigFile::parse("port : 1\n\nnonsense\n", "x.conf");
  REQUIRE_FALSE(bad.is_ok());
  CHECK(bad.status().text() == "x.conf line 3: 'nonsense' is not 'key : value'");
  auto twice = ConfigFile::parse("port : 1\nport : 2\n", "x.conf");
  REQUIRE_FALSE(twice.is_ok());
  CHECK(twice.status().text() == "x.conf line 2: port is given a second time, after line 1");
  CHECK(ConfigFile::load("/nonexistent/x.conf").status().code() == Code::kNotFound);
}

TEST_CASE("settings: defaults, file, then flags") {
  TempDir dir;
  REQUIRE(write_file_atomic(dir.sub("c.conf"), "port : 7000\ndir : /data\nmax-bytes : 1G\n"));
  Settings settings(specs());
  REQUIRE(parse(settings, {"--dir=/other", "--config", dir.sub("c.conf"), "--init"}));
  CHECK(settings.integer("port") == 7000);
  CHECK(settings.text("dir") == "/other");
  CHECK(settings.integer("max-bytes") == int64_t{1} << 30);
  CHECK(settings.flag("init"));
  CHECK(settings.given("port"));
  CHECK(settings.config_path() == dir.sub("c.conf"));
  Settings plain(specs());
  REQUIRE(parse(plain, {"--init", "no", "--port", "1"}));
  CHECK_FALSE(plain.flag("init"));
  CHECK(plain.integer("port") == 1);
  CHECK(plain.integer("max-bytes") == 64 << 20);
  CHECK_FALSE(plain.given("dir"));
  CHECK_FALSE(plain.done());
}

TEST_CASE("settings: each error is one sentence that names the flag or line") {
  const auto error = [](std::vector<std::string> words) {
    Settings settings(specs());
    return parse(settings, std::move(words)).text();
  };
  CHECK(error({"--port", "0"}) == "--port must be a whole number from 1 to 65535, not '0'");
  CHECK(error({"--port", "12x"}) == "--port must be a whole number from 1 to 65535, not '12x'");
  CHECK(error({"--max-bytes=10"}) ==
        "--max-bytes must be a size like 64mb, in bytes of at least 1024, not '10'");
  CHECK(error({"--max-bytes=99999999t"}).find("must be a size") != std::string::npos);
  CHECK(error({"--init=maybe"}) == "--init must be yes or no, not 'maybe'");
  CHECK(error({"--prot", "1"}) == "unknown flag --prot; see --help");
  CHECK(error({"--port"}) == "--port needs a value");
  CHECK(error({"file"}) == "'file' is not a flag: flags are --name value; see --help");
  TempDir dir;
  REQUIRE(write_file_atomic(dir.sub("c"), "port : 1\nfoo : 2\n"));
  CHECK(error({"--config", dir.sub("c")}) ==
        dir.sub("c") + " line 2: unknown setting 'foo'; --help lists the known ones");
  REQUIRE(write_file_atomic(dir.sub("c"), "\nport : x\n"));
  CHECK(error({"--config", dir.sub("c")}) ==
        dir.sub("c") + " line 2: port must be a whole number from 1 to 65535, not 'x'");
  Settings settings(specs());
  CHECK(settings.set("dir", "a\nb").code() == Code::kInvalid);
  CHECK(settings.set("none", "a").code() == Code::kNotFound);
}

TEST_CASE("histogram: every percentile is within 3.2 % above the exact one") {
  Random random(11);
  Histogram histogram;
  std::vector<int64_t> values;
  for (int i = 0; i < 20000; ++i) {
    const auto value = static_cast<int64_t>(random.next() >> (1 + random.below(62)));
    values.push_back(value);
    histogram.record(value);
  }
  std::sort(values.begin(), values.end());
  for (const double p : {0.01, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    const auto rank = static_cast<size_t>(std::max(1.0, p / 100 * 20000 + 0.999999));
    const int64_t exact = values[std::min<size_t>(rank, 20000) - 1];
    const int64_t got = histogram.percentile(p);
    CHECK(got >= exact);
    CHECK(static_cast<double>(got) <= static_cast<double>(exact) * 1.032 + 1);
  }
  CHECK(histogram.max() == values.back());
  CHECK(histogram.min() == values.front());
  CHECK(histogram.count() == 20000);
}

TEST_CASE("histogram: merge equals recording in one; extremes fit") {
  Histogram a;
  Histogram b;
  Histogram both;
  for (int64_t v : {int64_t{0}, int64_t{-5}, int64_t{31}, int64_t{32}, INT64_MAX}) {
    a.record(v);
    both.record(v);
  }
  b.record(1000);
  both.record(1000);
  a.merge(b);
  CHECK(a.count() == both.count());
  for (int p = 1; p <= 100; ++p) CHECK(a.percentile(p) == both.percentile(p));
  CHECK(a.percentile(100) == INT64_MAX);
  a.clear();
  CHECK(a.count() == 0);
  CHECK(a.percentile(99) == 0);
}

TEST_CASE("log: a line has time, level and tag, and stays one line") {
  TempDir dir;
  auto sink = open_log(dir.sub("x.log"), LogLevel::kInfo);
  REQUIRE(sink.is_ok());
  const Log log(*sink, "net");
  log.debug("not written");
  log.info("two\nlines");
  log.tagged("slots").warning("{} braces");
  auto text = read_file(dir.sub("x.log"));
  REQUIRE(text.is_ok());
  CHECK(text->find("not written") == std::string::npos);
  CHECK(text->find(" I net: two lines\n") == 23);
  CHECK(text->find(" W slots: {} braces\n") != std::string::npos);
  CHECK_FALSE(open_log("/proc/none/x.log", LogLevel::kInfo).is_ok());
  CHECK(parse_log_level("WARNING").is_ok());
  CHECK_FALSE(parse_log_level("loud").is_ok());
}

TEST_CASE("file: atomic write replaces, reads back any byte, and names what it cannot do") {
  TempDir dir;
  const std::string bytes("a\0b\xff\n", 5);
  REQUIRE(write_file_atomic(dir.sub("f"), "old"));
  REQUIRE(write_file_atomic(dir.sub("f"), bytes));
  auto text = read_file(dir.sub("f"));
  REQUIRE(text.is_ok());
  CHECK(*text == bytes);
  CHECK(read_file(dir.sub("none")).status().text().find(dir.sub("none")) != std::string::npos);
  CHECK_FALSE(write_file_atomic(dir.sub("no/such"), "x").is_ok());
  REQUIRE(make_dirs(dir.sub("a/b/c")));
  REQUIRE(make_dirs(dir.sub("a/b/c")));
  auto space = free_bytes(dir.path());
  REQUIRE(space.is_ok());
  CHECK(*space > 0);
}

TEST_CASE("state folder: one holder at a time") {
  TempDir dir;
  auto first = StateFolder::open(dir.sub("s"), "slotferry-shim", 1);
  REQUIRE(first.is_ok());
  auto second = StateFolder::open(dir.sub("s"), "slotferry-shim", 1);
  REQUIRE_FALSE(second.is_ok());
  CHECK(second.status().text().find("in use by another running program") != std::string::npos);
  first->reset();
  CHECK(StateFolder::open(dir.sub("s"), "slotferry-shim", 1).is_ok());
}

TEST_CASE("state folder: foreign, newer, damaged and non-empty folders are refused") {
  TempDir dir;
  { REQUIRE(StateFolder::open(dir.sub("s"), "slotferry-shim", 2).is_ok()); }
  auto foreign = StateFolder::open(dir.sub("s"), "slotferry-node", 2);
  REQUIRE_FALSE(foreign.is_ok());
  CHECK(foreign.status().text().find("belongs to slotferry-shim") != std::string::npos);
  auto older = StateFolder::open(dir.sub("s"), "slotferry-shim", 1);
  REQUIRE_FALSE(older.is_ok());
  CHECK(older.status().text().find("newer") != std::string::npos);
  { REQUIRE(StateFolder::open(dir.sub("s"), "slotferry-shim", 3).is_ok()); }
  CHECK_FALSE(StateFolder::open(dir.sub("s"), "slotferry-shim", 2).is_ok());

  REQUIRE(write_file_atomic(dir.sub("s/slotferry.stamp"), "garbage : x\n"));
  CHECK(StateFolder::open(dir.sub("s"), "slotferry-shim", 3).status().code() == Code::kCorrupt);

  REQUIRE(make_dirs(dir.sub("full")));
  REQUIRE(write_file_atomic(dir.sub("full/mine.txt"), "x"));
  auto full = StateFolder::open(dir.sub("full"), "slotferry-shim", 1);
  REQUIRE_FALSE(full.is_ok());
  CHECK(full.status().text().find("is not empty") != std::string::npos);

  REQUIRE(make_dirs(dir.sub("cut")));
  REQUIRE(write_file_atomic(dir.sub("cut/slotferry.stamp.tmp"), ""));
  CHECK(StateFolder::open(dir.sub("cut"), "slotferry-shim", 1).is_ok());
}

// In a process of its own: signals must be blocked before any other thread starts.
TEST_CASE("process: SIGTERM calls on_stop once") {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "'" + self + "' --no-skip --test-case='child: signals' > /dev/null";
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("child: signals" * doctest::skip()) {
  std::promise<void> stopped;
  int calls = 0;
  {
    StopSignals signals([&] {
      ++calls;
      stopped.set_value();
    });
    ::kill(::getpid(), SIGTERM);
    stopped.get_future().wait();
    ::kill(::getpid(), SIGINT);
  }
  CHECK(calls == 1);
  CHECK(version_text("slotferry-x").starts_with("slotferry-x "));
}

}  // namespace
}  // namespace sf
