#include "migrator/journal.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/strings.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/log_files.h"
#include "tests/support/temp_dir.h"

namespace sf {

TEST_CASE("journal: I10 I12 what was appended is there after the process is gone") {
  const TempDir dir;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const ManualClock clock;
    auto journal = Journal::open(dir.sub("state"), clock);
    bool fine = journal.is_ok() && (*journal)->intent("replicate.follow", "x").is_ok() &&
                (*journal)->done("replicate.follow", "followed").is_ok() &&
                (*journal)->set_fact("lock-name", "run-1").is_ok() &&
                (*journal)->intent("effect attach.assign", "slots-assign").is_ok();
    if (fine) kill(getpid(), SIGKILL);  // no destructor, no close
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  const ManualClock clock;
  auto journal = Journal::open(dir.sub("state"), clock);
  REQUIRE(journal.is_ok());
  CHECK((*journal)->entries().size() == 4);
  CHECK((*journal)->is_done("replicate.follow"));
  CHECK_FALSE((*journal)->is_done("attach.assign"));
  CHECK((*journal)->fact("lock-name") == "run-1");
  CHECK((*journal)->entries().back().text == "slots-assign");
  CHECK((*journal)->entries().back().kind == JournalEntry::Kind::kIntent);
}

TEST_CASE(
    "journal: I10 after an append that failed all are refused, and the next run reads the rest") {
  const TempDir dir;
  const ManualClock clock;
  {
    auto journal = Journal::open(dir.sub("state"), clock);
    REQUIRE((*journal)->done("preflight", "fine").is_ok());
    const std::string log = newest_log(dir.sub("state") + "/journal");
    {
      const FileSizeLimit limit(std::filesystem::file_size(log) + 50);
      CHECK_FALSE((*journal)->intent("attach.assign", std::string(500, 'x')).is_ok());
    }
    const Status next = (*journal)->failed("attach.assign", "the disk is full");
    CHECK(next.text().find("free some disk space and run again") != std::string::npos);
    CHECK((*journal)->entries().size() == 1);
  }
  auto journal = Journal::open(dir.sub("state"), clock);
  REQUIRE(journal.is_ok());
  CHECK((*journal)->entries().size() == 1);
  CHECK((*journal)->is_done("preflight"));
  CHECK((*journal)->intent("attach.assign", "again").is_ok());
}

TEST_CASE("journal: times, facts replaced, and beginning anew") {
  const TempDir dir;
  ManualClock clock(1000);
  auto opened = Journal::open(dir.sub("state"), clock);
  REQUIRE(opened.is_ok());
  Journal& journal = **opened;
  CHECK(journal.intent("a", "").is_ok());
  clock.advance_ms(5);
  CHECK(journal.intent("a", "").is_ok());
  clock.advance_ms(5);
  CHECK(journal.done("a", "").is_ok());
  CHECK(journal.first_intent("a") == 1000);
  CHECK(journal.time_of(JournalEntry::Kind::kIntent, "a") == 1005);
  CHECK(journal.time_of(JournalEntry::Kind::kDone, "a") == 1010);
  CHECK(journal.time_of(JournalEntry::Kind::kDone, "b") == 0);
  CHECK(journal.set_fact("n", "1").is_ok());
  CHECK(journal.set_fact("n", "2").is_ok());
  CHECK(journal.fact("n") == "2");
  CHECK(journal.begin_anew("aborted").is_ok());
  CHECK_FALSE(journal.is_done("a"));
  CHECK_FALSE(journal.fact("n").has_value());
  CHECK(journal.first_intent("a") == 0);
  CHECK(journal.entries().size() == 6);
}

TEST_CASE("journal: read only by others while it is written, and none where none was begun") {
  const TempDir dir;
  const ManualClock clock;
  CHECK(Journal::open_read_only(dir.sub("state"), clock).status().code() == Code::kNotFound);
  auto writer = Journal::open(dir.sub("state"), clock);
  REQUIRE(writer.is_ok());
  CHECK((*writer)->done("a", "").is_ok());
  auto reader = Journal::open_read_only(dir.sub("state"), clock);
  REQUIRE(reader.is_ok());
  CHECK((*reader)->is_done("a"));
  CHECK_FALSE((*reader)->done("b", "").is_ok());
}

}  // namespace sf
