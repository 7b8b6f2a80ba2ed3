// The shim's numbers as Prometheus reads them, made when asked for.
#pragma once

#include <string>

#include "proxy_shim/control/shim_report.h"

namespace sf {

// Text format 0.0.4. All names begin with slotferry_shim_.
std::string metrics_page(const ShimReport& report);

}  // namespace sf
