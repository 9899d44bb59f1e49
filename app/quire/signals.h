#pragma once

namespace quire {

// Blocks SIGINT, SIGTERM and SIGHUP in this thread and those it starts, so that wait_for_signal
// gets them. Call before any thread exists.
void block_stop_signals();
// Waits for one of them and returns its number.
int wait_for_signal();

}  // namespace quire
