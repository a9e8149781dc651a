CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  email TEXT,
  born DATE,
  balance REAL,
  picture BLOB
);
CREATE TABLE tickets (
  id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL,
  status TEXT NOT NULL,
  body TEXT,
  urgent BOOLEAN NOT NULL
);
