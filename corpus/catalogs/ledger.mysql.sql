-- A ledger that agents write to: tenants, masked and hidden columns, a cascade, a trigger, a table that is
-- only written and one that is only read.

CREATE TABLE accounts (
    id INTEGER PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    name varchar(40) NOT NULL,
    iban varchar(40),
    balance INTEGER NOT NULL,
    note varchar(200),
    state varchar(10)
);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL,
    tenant_id INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    memo varchar(200),
    FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE
);
-- Written by everybody, read by nobody but the officer.
CREATE TABLE journal (
    id INTEGER PRIMARY KEY,
    what varchar(200) NOT NULL,
    secret varchar(40)
);
-- Read by everybody, written by nobody.
CREATE TABLE rates (
    code varchar(3) PRIMARY KEY,
    rate INTEGER NOT NULL
);
CREATE TABLE drafts (
    id INTEGER PRIMARY KEY,
    parent_id INTEGER,
    title varchar(80),
    FOREIGN KEY (parent_id) REFERENCES drafts (id) ON DELETE SET NULL
);
-- Of several tenants, with keys over all of them.
CREATE TABLE contacts (
    id INTEGER PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    email varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci UNIQUE,
    name varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
    hits INTEGER DEFAULT 0,
    secret varchar(40) DEFAULT 'none',
    UNIQUE (tenant_id, name)
);
CREATE TABLE watched (
    id INTEGER PRIMARY KEY,
    v INTEGER
);
-- Of which the engine writes when they changed.
CREATE TABLE visits (
    id INTEGER PRIMARY KEY,
    v INTEGER,
    seen_at TIMESTAMP NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP
);
CREATE TABLE payroll (
    id INTEGER PRIMARY KEY,
    salary INTEGER
);

INSERT INTO accounts (id, tenant_id, name, iban, balance, note, state) VALUES
    (1, 1, 'Ada',   'GB11-1111', 100, 'HIDDEN-NOTE', 'open'),
    (2, 1, 'Boris', 'GB22-2222', 50,  NULL,          'open'),
    (3, 1, 'Chloe', NULL,        0,   NULL,          'closed'),
    (4, 2, 'Eve',   'GB44-4444', 900, 'HIDDEN-NOTE', 'open');
INSERT INTO entries (id, account_id, tenant_id, amount, memo) VALUES
    (10, 1, 1, 100, 'salary'), (11, 2, 1, 50, 'gift'), (12, 4, 2, 900, 'HIDDEN-MEMO');
INSERT INTO rates (code, rate) VALUES ('EUR', 100), ('USD', 110);
INSERT INTO drafts (id, parent_id, title) VALUES (1, NULL, 'one'), (2, 1, 'two');
INSERT INTO contacts (id, tenant_id, email, name, hits) VALUES
    (1, 1, 'ada@x.example', 'Ada', 1), (2, 1, NULL, 'Boris', 2), (3, 2, 'eve@x.example', 'HIDDEN-EVE', 3), (4, 1, 'held@x.example', 'Held', 4);
INSERT INTO watched (id, v) VALUES (1, 1);
INSERT INTO visits (id, v) VALUES (1, 1);
INSERT INTO payroll (id, salary) VALUES (1, 424242);

CREATE TRIGGER watched_touch AFTER UPDATE ON watched FOR EACH ROW INSERT INTO journal (id, what) VALUES (NEW.v, 'touched');

CREATE VIEW open_accounts AS SELECT id, name FROM accounts WHERE state = 'open';
