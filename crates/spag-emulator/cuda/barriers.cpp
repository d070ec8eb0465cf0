// Barriers in shared memory, turns of warpgroups, copies that end in an arrival, and the vector clocks that order their
// accesses.
#include "block.h"

namespace emulator {
namespace {

// Tags a barrier in shared memory; the lower bits hold its index.
constexpr uint64_t SEAL = 0x5bacedba11ed0000;
// The maximum epoch of a stamp. Races of later epochs are missed.
constexpr unsigned LAST_EPOCH = (1 << 14) - 1;

// Advances the clock that releases the thread's accesses so far.
void advance(Thread& thread) {
  if (!thread.clock.empty()) thread.clock[thread.index.x] = Tick(thread.epoch);
  if (thread.epoch < LAST_EPOCH) ++thread.epoch;
}

// Gives the threads of the block clocks. Lanes of a warp are ordered by the number of `__syncwarp` they have
// passed.
void start_clocks() {
  Block& block = running_block();
  if (!finds_races() || !block.threads[0].clock.empty()) return;
  for (Thread& thread : block.threads) {
    thread.clock.assign(block.threads.size(), 0);
    const unsigned first = thread.index.x / LANES * LANES;
    for (unsigned lane = first; lane < first + LANES; ++lane) thread.clock[lane] = Tick(thread.epoch - 1);
  }
}

std::string name_of(const uint64_t* barrier) {
  const auto* at = reinterpret_cast<const unsigned char*>(barrier);
  return "the barrier at byte " + std::to_string(at - running_block().shared_data) + " of shared memory";
}

void check_place(const uint64_t* barrier) {
  const Block& block = running_block();
  const auto* at = reinterpret_cast<const unsigned char*>(barrier);
  if (at < block.shared_data || at + 8 > block.shared_data + block.shared_bytes) stop("a barrier is outside shared memory");
  if (reinterpret_cast<uintptr_t>(at) % 8) stop(name_of(barrier) + " is not on 8 bytes");
}

size_t index_of(const uint64_t* barrier) {
  check_place(barrier);
  access_or_stop(barrier, 8, false);
  const Block& block = running_block();
  const uint64_t index = *barrier ^ SEAL;
  if (index >= block.phases.size() || block.phases[index].at != barrier)
    stop(name_of(barrier) + " is not initialised, or overwritten");
  return index;
}

void count_arrival(Phases& phases, const Clock& clock) {
  join(phases.arrived, clock);
  if (--phases.missing > 0) return;
  ++phases.number;
  phases.missing = phases.arrivals;
  phases.ended = std::move(phases.arrived);
  phases.arrived.clear();
}

void deliver_first(Block& block) {
  Delivery& delivery = block.deliveries.front();
  for (const Copy& copy : delivery.copies) memcpy(copy.to, copy.data, copy.bytes);
  count_arrival(block.phases[delivery.phases], delivery.clock);
  block.deliveries.pop_front();
}

}  // namespace

void init_barrier(uint64_t* barrier, unsigned arrivals) {
  check_place(barrier);
  access_or_stop(barrier, 8, true);
  if (arrivals == 0) stop(name_of(barrier) + " expects no arrivals");
  start_clocks();
  Block& block = running_block();
  for (Phases& phases : block.phases)
    if (phases.at == barrier) phases.at = nullptr;
  *barrier = SEAL ^ block.phases.size();
  block.phases.push_back({barrier, arrivals, arrivals, 0, {}, {}});
}

void arrive(uint64_t* barrier) {
  const size_t index = index_of(barrier);
  advance(current());
  count_arrival(running_block().phases[index], current().clock);
}

void arrive_after_copies(uint64_t* barrier) {
  const size_t index = index_of(barrier);
  Thread& thread = current();
  Delivery delivery{thread.index.x, {}, index, {}};
  thread.groups.push_back(std::move(thread.open));
  for (const auto& group : thread.groups)
    for (const Copy& copy : group) {
      // The target counts as written until the arrival.
      access_or_stop(copy.to, copy.bytes, true);
      delivery.copies.push_back(copy);
    }
  thread.open.clear();
  thread.groups.clear();
  advance(thread);
  delivery.clock = thread.clock;
  Block& block = running_block();
  block.deliveries.push_back(std::move(delivery));
  if (block.deliver_early) deliver_first(block);
}

bool deliver_until_a_phase_ends() {
  Block& block = running_block();
  while (!block.deliveries.empty()) {
    const size_t index = block.deliveries.front().phases;
    const uint64_t number = block.phases[index].number;
    deliver_first(block);
    if (block.phases[index].number != number) return true;
  }
  return false;
}

bool phase_ended(const Thread& thread) {
  const auto& wait = *static_cast<const PhaseWait*>(thread.data);
  return running_block().phases[wait.phases].number % 2 != wait.parity;
}

void wait_for_phase(uint64_t* barrier, unsigned parity) {
  PhaseWait phase{index_of(barrier), parity & 1};
  Thread& thread = current();
  thread.shown = false;
  thread.data = &phase;
  if (!phase_ended(thread)) wait(Wait::Phase, &phase);
  join(thread.clock, running_block().phases[phase.phases].ended);
}

void show_to_products() { current().shown = true; }

void pass_warp_barrier(Thread* lanes) {
  for (unsigned lane = 0; lane < LANES; ++lane) {
    // Without clocks, only the count is needed.
    if (lanes[lane].clock.empty()) ++lanes[lane].epoch;
    else advance(lanes[lane]);
  }
  if (lanes[0].clock.empty()) return;
  for (unsigned lane = 1; lane < LANES; ++lane) join(lanes[0].clock, lanes[lane].clock);
  for (unsigned lane = 1; lane < LANES; ++lane) lanes[lane].clock = lanes[0].clock;
}

void reach_turn(Thread* lanes) {
  Block& block = running_block();
  const bool waits = lanes[0].wait == Wait::TurnWait;
  const TurnWait turn = *static_cast<const TurnWait*>(lanes[0].data);
  for (unsigned lane = 0; lane < LANES; ++lane) {
    const auto& other = *static_cast<const TurnWait*>(lanes[lane].data);
    if (other.id != turn.id || other.threads != turn.threads) fail("lanes of a warp are at different turns");
  }
  const std::string name = "turn " + std::to_string(turn.id);
  // Number 0 is the barrier of the whole block.
  if (turn.id < 1 || turn.id >= int(TURNS)) fail(name + ": they are numbered from 1 to 15");
  if (turn.threads == 0 || turn.threads % LANES || turn.threads > block.threads.size())
    fail(name + " is of " + std::to_string(turn.threads) + " threads");
  Turn& state = block.turns[turn.id];
  if (state.threads != 0 && state.threads != turn.threads) fail("warps expect different numbers of threads at " + name);
  state.threads = turn.threads;
  const unsigned warp = lanes[0].index.x / LANES;
  for (unsigned other : state.warps)
    if (other == warp) fail("warp " + std::to_string(warp) + " arrives twice at " + name);
  state.warps.push_back(warp);
  start_clocks();
  for (unsigned lane = 0; lane < LANES; ++lane) {
    advance(lanes[lane]);
    join(state.arrived, lanes[lane].clock);
    lanes[lane].wait = waits ? Wait::Turn : Wait::Nothing;
  }
  if (state.warps.size() * LANES < state.threads) return;
  for (unsigned waiting : state.warps)
    for (unsigned lane = 0; lane < LANES; ++lane) {
      Thread& thread = block.threads[waiting * LANES + lane];
      // A lane of a warp that has given this turn and waits for another.
      if (thread.wait != Wait::Turn || static_cast<const TurnWait*>(thread.data)->id != turn.id) continue;
      join(thread.clock, state.arrived);
      thread.wait = Wait::Nothing;
    }
  state = Turn{};
}

namespace {

std::string describe_wait(const Thread& thread) {
  switch (thread.wait) {
    case Wait::Barrier: return "the block's barrier";
    case Wait::Phase: {
      const auto& wait = *static_cast<const PhaseWait*>(thread.data);
      const Phases& phases = running_block().phases[wait.phases];
      return "parity " + std::to_string(wait.parity) + " of " + name_of(phases.at) + " (" +
             std::to_string(phases.arrivals - phases.missing) + " of " + std::to_string(phases.arrivals) + " arrivals)";
    }
    case Wait::Turn: return "turn " + std::to_string(static_cast<const TurnWait*>(thread.data)->id);
    case Wait::Group: return "the rest of their warpgroup at a product";
    default: return "the other lanes of their warp";
  }
}

}  // namespace

std::string describe_waits() {
  const auto& threads = running_block().threads;
  std::string all;
  for (size_t first = 0, end; first < threads.size(); first = end) {
    const std::string what = threads[first].done ? "" : describe_wait(threads[first]);
    for (end = first + 1; end < threads.size(); ++end)
      if ((threads[end].done ? "" : describe_wait(threads[end])) != what) break;
    const std::string who = "threads " + std::to_string(first) + " to " + std::to_string(end - 1);
    all += (all.empty() ? "" : "; ") + who + (what.empty() ? " have ended" : " wait for " + what);
  }
  return all;
}

}  // namespace emulator
