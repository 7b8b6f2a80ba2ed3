// fake-pika --port N [--sharding] [--slots 0-15] [--version 3.5.5] ...: the Pika of the process
// tests (tests/support/fake_pika/fake_pika.h). Serves until SIGTERM or SIGINT; one line on standard
// output when ready.
#include <boost/program_options.hpp>
#include <csignal>
#include <iostream>

#include "tests/support/fake_pika/fake_pika.h"

namespace {

namespace po = boost::program_options;

int serve(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  sf::fake_pika::PikaOptions options;
  po::options_description flags("fake-pika");
  flags.add_options()("port", po::value(&options.port))(
      "announced-port", po::value(&options.announced_port))("version", po::value(&options.version))(
      "sharding", po::bool_switch(&options.sharding))("slots", po::value(&options.slots))(
      "slot-num", po::value(&options.slot_num))("databases", po::value(&options.databases))(
      "sync-threads", po::value(&options.sync_threads))(
      "binlog-file-size", po::value(&options.binlog_file_size))("password",
                                                                po::value(&options.password));
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, flags), given);
  po::notify(given);
  sf::fake_pika::FakePika pika(options);
  std::cout << "ready on 127.0.0.1:" << pika.port() << std::endl;
  int signal = 0;
  sigwait(&signals, &signal);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return serve(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "fake-pika: " << error.what() << "\n";
    return 1;
  }
}
