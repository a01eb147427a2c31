"""Makes ledgers as the agent's analyzer `cost` does, without the hours that it takes: the tables are those of src/store/ledger."""
import json
import random
import sqlite3

HOUR = 1_764_115_200  # 2025-11-26T00:00:00Z
ACCOUNT = "gpu slice energy_state compute_state cause request_class method process name_space pod job tenant engine model".split()
AMOUNTS = ("energy_uj time_ms cost_allocation_pico cost_usage_pico priced_ms electricity_pico carbon_ng carbon_known_uj"
           " unmetered_ms tokens").split()  # fmt: skip


def tables():
    amounts = ",".join(f"{name} INTEGER NOT NULL CHECK(typeof({name})='integer')" for name in AMOUNTS)
    texts = ",".join(f"{name} TEXT NOT NULL" for name in ACCOUNT)
    return f"""
        CREATE TABLE ledger(id TEXT NOT NULL, format INTEGER NOT NULL, created_unix_ns INTEGER NOT NULL, host TEXT NOT NULL);
        CREATE TABLE ledger_state(one INTEGER PRIMARY KEY CHECK(one=1), state TEXT NOT NULL, written_unix_ns INTEGER NOT NULL);
        CREATE TABLE ledger_account(id INTEGER PRIMARY KEY, {texts}, last_hour_unix INTEGER NOT NULL, UNIQUE({",".join(ACCOUNT)}));
        CREATE TABLE ledger_entry(hour_unix INTEGER NOT NULL, for_hour_unix INTEGER NOT NULL, account INTEGER NOT NULL, {amounts},
            PRIMARY KEY(hour_unix,for_hour_unix,account)) WITHOUT ROWID;
        CREATE TABLE ledger_day(day_unix INTEGER NOT NULL, account INTEGER NOT NULL, {amounts}, PRIMARY KEY(day_unix,account))
            WITHOUT ROWID;
        CREATE TABLE ledger_hour(hour_unix INTEGER PRIMARY KEY, revision INTEGER NOT NULL);
        PRAGMA application_id={0x67706C64}; PRAGMA user_version=1; PRAGMA journal_mode=WAL;"""


def account(gpu, number):
    """The texts of an account: the first of a GPU is idle, the second unobserved, the others of three tenants."""
    texts = dict.fromkeys(ACCOUNT, "")
    texts |= {"gpu": f"GPU-{gpu}", "energy_state": "idle", "compute_state": "unallocated", "method": "whole"}
    if number == 1:
        texts |= {"energy_state": "unobserved", "compute_state": "unobserved"}
    elif number > 1:
        texts |= {"energy_state": "active", "compute_state": "useful", "method": "utilization", "process": "python3",
                  "name_space": f"team-{number % 3}", "pod": f"pod-{gpu}-{number}", "tenant": f"tenant-{number % 3}",
                  "model": "llama" if number % 2 else ""}  # fmt: skip
    if number == 4:
        texts |= {"energy_state": "held", "compute_state": "held_idle", "cause": "no_requests"}
    return texts


class Ledger:
    """A ledger of one node; `rows` holds what was booked, as (hour, for_hour, texts, amounts)."""

    def __init__(self, path, gpus=2, accounts=6, hours=30, first_hour=HOUR, identity="0123456789abcdef" * 2, host="node-1"):
        self.path, self.rows = path, []
        self.base = sqlite3.connect(path)
        self.base.executescript(tables())
        self.base.execute("INSERT INTO ledger VALUES(?,1,?,?)", (identity, first_hour * 10**9, host))
        chance = random.Random(7)
        for hour in range(first_hour, first_hour + hours * 3600, 3600):
            for gpu in range(gpus):
                for number in range(accounts):
                    time_ms = chance.randrange(1, 3_600_000 // accounts)
                    energy = time_ms * 300_000 + chance.randrange(1_000_000)
                    self.add(hour, 0, account(gpu, number),
                              {"energy_uj": energy, "time_ms": time_ms, "priced_ms": time_ms, "carbon_known_uj": energy,
                               "cost_allocation_pico": time_ms * 1_911_111 + chance.randrange(9_999), "carbon_ng": energy // 9,
                               "cost_usage_pico": time_ms * 1_700_000 + chance.randrange(9_999), "electricity_pico": energy // 36})  # fmt: skip
        self.end(first_hour + hours * 3600)

    def add(self, hour, for_hour, texts, amounts):
        names = ",".join(AMOUNTS)
        values = [amounts.get(name, 0) for name in AMOUNTS]
        self.base.execute(f"INSERT INTO ledger_account({','.join(ACCOUNT)},last_hour_unix) VALUES({','.join('?' * 14)},?)"
                          " ON CONFLICT DO UPDATE SET last_hour_unix=excluded.last_hour_unix", [*texts.values(), hour])  # fmt: skip
        where = " AND ".join(f"{name}=?" for name in ACCOUNT)
        key = self.base.execute(f"SELECT id FROM ledger_account WHERE {where}", list(texts.values())).fetchone()[0]
        self.base.execute(f"INSERT INTO ledger_entry(hour_unix,for_hour_unix,account,{names}) VALUES(?,?,?{',?' * 10})",
                          [hour, for_hour, key, *values])  # fmt: skip
        added = ",".join(f"{name}={name}+excluded.{name}" for name in AMOUNTS)
        self.base.execute(f"INSERT INTO ledger_day(day_unix,account,{names}) VALUES(?,?{',?' * 10}) ON CONFLICT DO UPDATE SET {added}",
                          [hour // 86400 * 86400, key, *values])  # fmt: skip
        self.base.execute("INSERT INTO ledger_hour VALUES(?,1) ON CONFLICT DO UPDATE SET revision=revision+1", (hour,))
        self.rows.append((hour, for_hour, texts, amounts))

    def end(self, *booked):
        """The state has a GPU for each time, up to which it is booked."""
        self.base.execute("INSERT OR REPLACE INTO ledger_state VALUES(1,?,?)", (state(booked), max(booked) * 10**9))
        self.base.commit()

    def total(self, name):
        return sum(amounts.get(name, 0) for _, _, _, amounts in self.rows)


def state(booked):
    """The state of a ledger whose GPUs are booked up to these times."""
    gpus = [{"gpu": f"GPU-{i}", "model": "NVIDIA H100 80GB HBM3", "at_ns": 1, "at_unix_ns": at * 10**9, "energy_uj": 1,
             "energy_source": 1, "idle_watts_of": [], "remainders": [0, 0, 0], "holds": []} for i, at in enumerate(booked)]  # fmt: skip
    return json.dumps({"version": 1, "boot_id": "b", "gpus": gpus, "engines": []})
