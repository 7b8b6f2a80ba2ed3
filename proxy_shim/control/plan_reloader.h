// SHIM RELOAD: the plan file, changed by a failover, a password or more slots, is read again and
// taken over while clients are served.
#pragma once

#include <functional>
#include <string>

#include "common/base/status.h"

namespace sf {

class PlanReloader {
 public:
  virtual ~PlanReloader() = default;
  // Begins one; `done` gets what has changed, as one line, or the error, on another thread. An
  // error leaves everything as it was. kRefused if one is under way. Admin thread.
  // `may_lose`: a former master's writes that its successor has not are given up (succession.h).
  virtual Status reload(const std::string& from, bool may_lose,
                        std::function<void(Result<std::string>)> done) = 0;
  virtual bool reloading() const = 0;  // any thread
};

}  // namespace sf
