-- A support desk for two tenants, with few rows. The policies of the manual speak of these tables.
CREATE TABLE staff (id INTEGER PRIMARY KEY, name TEXT NOT NULL, team TEXT NOT NULL) STRICT;
CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  email TEXT,
  phone TEXT,
  national_id TEXT
) STRICT;
CREATE TABLE tickets (
  id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL,
  customer_id INTEGER NOT NULL,
  assigned_to INTEGER,
  status TEXT NOT NULL,
  subject TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE TABLE credentials (id INTEGER PRIMARY KEY, service TEXT NOT NULL, api_key TEXT NOT NULL) STRICT;

INSERT INTO staff VALUES (1, 'Ines Duarte', 'first line'), (2, 'Amara Nwosu', 'billing');
INSERT INTO customers VALUES
  (1, 1, 'Ada Brandt', 'ada@acme.example', '030-5550101', '850712-4821'),
  (2, 2, 'Elif Yilmaz', 'elif@globex.example', '030-5550105', '880417-3390');
INSERT INTO tickets VALUES
  (1, 1, 1, 1, 'open', 'Cannot sign in', 'The reset link has expired twice.'),
  (2, 1, 1, NULL, 'open', 'Dark mode', 'Is there a dark theme for reports?'),
  (3, 2, 2, 2, 'open', 'Export stops', 'The export ends after a thousand lines.');
INSERT INTO credentials VALUES (1, 'mail relay', 'key-6f1d20c7');
