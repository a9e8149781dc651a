-- Columns whose names the starter policies know, and some that only look alike.
CREATE TABLE accounts (
  id INTEGER PRIMARY KEY,
  email TEXT,
  password_hash TEXT,
  salt TEXT,
  ssn TEXT,
  iban TEXT,
  date_of_birth TEXT,
  token_count INTEGER,
  secretary TEXT,
  description TEXT
);
CREATE TABLE addresses (id INTEGER PRIMARY KEY, street TEXT, city TEXT);
CREATE TABLE people (
  id INTEGER PRIMARY KEY,
  first_name TEXT,
  born DATE,
  phone TEXT,
  city TEXT,
  address_id INTEGER REFERENCES addresses (id)
);
CREATE TABLE employees (
  id INTEGER PRIMARY KEY,
  street TEXT,
  home_location TEXT,
  last_login_ip TEXT,
  salary INTEGER,
  religion TEXT,
  next_of_kin TEXT
);
CREATE TABLE files (id INTEGER PRIMARY KEY, name TEXT, hash TEXT);
CREATE TABLE api_keys (id INTEGER PRIMARY KEY, owner TEXT, api_key TEXT UNIQUE, access_key_id TEXT);
CREATE TABLE usage (id INTEGER PRIMARY KEY, api_key_id INTEGER REFERENCES api_keys (id), calls INTEGER);
CREATE VIEW contacts AS SELECT email, ssn AS number FROM accounts;
CREATE VIEW leaks AS SELECT password_hash AS fingerprint FROM accounts;
INSERT INTO accounts VALUES
  (1, 'a@b.example', 'demo-hash-1', 'demo-salt-1', '078-05-1120', 'DE02120300000000202051', '1985-07-12', 7, 'Jo', 'x');
INSERT INTO addresses VALUES (1, 'Storgatan 1', 'Malmö');
INSERT INTO people VALUES (1, 'Jo', '1985-07-12', '+46 40 555 0147', 'Malmö', 1);
INSERT INTO employees VALUES (1, 'Storgatan 1', '55.605, 13.003', '192.0.2.7', 4100, 'none', 'Bo');
INSERT INTO files VALUES (1, 'a.txt', 'cafe');
INSERT INTO api_keys VALUES (1, 'ci', 'demo-key-1', 'demo-access-1');
INSERT INTO usage VALUES (1, 1, 12);
