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
CREATE TABLE files (id INTEGER PRIMARY KEY, name TEXT, hash TEXT);
CREATE VIEW contacts AS SELECT email, ssn AS number FROM accounts;
CREATE VIEW leaks AS SELECT password_hash AS fingerprint FROM accounts;
INSERT INTO accounts VALUES
  (1, 'a@b.example', 'demo-hash-1', 'demo-salt-1', '078-05-1120', 'DE02120300000000202051', '1985-07-12', 7, 'Jo', 'x');
INSERT INTO files VALUES (1, 'a.txt', 'cafe');
