#include "sdk/energy/window_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace gpulens::sdk {
namespace {

TEST(WindowPool, SlotHasOneOwnerAtATime) {
  constexpr int kThreads = 4, kTurns = 5'000;
  WindowPool pool;
  std::atomic<int> running{kThreads}, wrong{0}, refused{0}, seen{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTurns; ++i) {
        const int64_t mine = int64_t{t} * kTurns + i;
        WindowSlot* slot = pool.Begin(nullptr, true, mine);
        if (!slot) {
          ++refused;
          std::this_thread::yield();
          continue;
        }
        slot->AddTokens(2);
        slot->Mark("decode", mine);
        slot->End(mine + 1);
        if (slot->begin_ns() != mine || slot->end_ns() != mine + 1 || slot->PhaseOf("decode") != 1) ++wrong;
        pool.Release(slot);
      }
      --running;
    });
  }
  // The engine's side.
  while (true) {
    const bool last = running == 0;
    pool.TakeFresh([&](WindowSlot* slot) {
      slot->TakeOver();
      if (slot->account.end_ns != energy::kOpenEnd && slot->account.tokens != 2) ++wrong;
      if (slot->account.begin_ns != slot->begin_ns()) ++wrong;
      ++seen;
      pool.Release(slot);
    });
    if (last) break;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(seen + refused, kThreads * kTurns);
}

TEST(WindowPool, IsBounded) {
  WindowPool pool;
  std::vector<WindowSlot*> all;
  while (WindowSlot* slot = pool.Begin(nullptr, false, 1)) all.push_back(slot);
  EXPECT_EQ(all.size(), size_t{WindowPool::kChunk} * WindowPool::kChunks);
  pool.TakeFresh([&](WindowSlot* slot) { pool.Release(slot); });
  EXPECT_EQ(pool.Begin(nullptr, false, 1), nullptr) << "their programs have them still";
  pool.Release(all.back());
  EXPECT_EQ(pool.Begin(nullptr, false, 1), all.back());
}

TEST(WindowSlot, KeepsMarksUntilTheyAreTaken) {
  WindowPool pool;
  WindowSlot* slot = pool.Begin(nullptr, true, 10);
  slot->Mark("a name of more than thirty-one bytes", 11);
  EXPECT_EQ(slot->PhaseOf("a name of more than thirty-one bytes"), 1);
  EXPECT_EQ(slot->PhaseOf("a name of more than thirty-one "), 1) << "its first 31";
  for (int i = 0; i < 100; ++i) {
    slot->Mark("b", 12 + i);
    slot->TakeOver();
    slot->account.mark_count = 0;  // as the ledger does
  }
  EXPECT_EQ(slot->lost_marks(), 0u);
  slot->AddTokens(-5);
  slot->AddTokens(7);
  EXPECT_TRUE(slot->End(200));
  EXPECT_FALSE(slot->End(300));
  slot->Mark("c", 250);
  slot->TakeOver();
  EXPECT_EQ(slot->account.tokens, 7);
  EXPECT_EQ(slot->account.end_ns, 200);
  EXPECT_EQ(slot->account.mark_count, 0u) << "it had ended";
}

}  // namespace
}  // namespace gpulens::sdk
