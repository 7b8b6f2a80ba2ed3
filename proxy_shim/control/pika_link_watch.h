// What a replica's link and its end do from look to look, by unit: a copy that begins again and
// again, and a record it never gets past. Neither is seen in one look.
#pragma once

#include <map>
#include <string>

#include "common/pika/pika_status.h"

namespace sf {

class PikaLinkWatch {
 public:
  using Ends = std::map<std::string, BinlogOffset>;  // by binlog

  // One look at `unit`: the replica's link, its ends and its master's.
  void look(const std::string& unit, bool up, bool copying, const Ends& ends, const Ends& leader);
  // So many copies were seen to end elsewhere without the link coming up in between: an endless
  // copy, as Pika makes it after PURGELOGSTO took the active binlog file away. 0: not endless.
  int copies_in_vain(const std::string& unit) const;
  // So often the link came up while the end did not move (4.0.1: the record of a PSETEX, asked for
  // again for ever, with lag 0 at the master all the time). 0: it is not stuck.
  int ups_in_vain(const std::string& unit) const;

 private:
  struct Seen {
    int copies = 0;  // ends of copies since the link was up
    Ends copied;
    int ups = 0;  // while the end did not move
    bool up = false;
    Ends at;
  };
  std::map<std::string, Seen> seen_;
};

}  // namespace sf
