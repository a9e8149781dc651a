-- The support desk of `desk.sql` as a PostgreSQL database, and what only PostgreSQL has: a second schema, types of the
-- database, a parent and partitions, a materialised view, functions. The schema is called `main`, as SQLite's is, so that
-- the same policies hold.

CREATE SCHEMA main;
CREATE SCHEMA hr;
ALTER DATABASE desk SET search_path = main;
SET search_path = main;

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN email_address AS text CHECK (VALUE LIKE '%@%');
CREATE DOMAIN checked_code AS text CHECK (code_is_known(VALUE));
CREATE TYPE address AS (street text, town text);

CREATE TABLE customers (
    id integer PRIMARY KEY,
    tenant_id integer NOT NULL,
    name text NOT NULL,
    email email_address,
    national_id text,
    phone text,
    birth_year integer,
    risk_note text,
    contact text GENERATED ALWAYS AS (name || ' <' || email || '>') STORED,
    profile jsonb
);
CREATE INDEX customers_by_national_id ON customers (national_id);

CREATE TABLE tickets (
    id integer PRIMARY KEY,
    customer_id integer NOT NULL REFERENCES customers (id),
    tenant_id integer NOT NULL,
    subject text NOT NULL,
    body text,
    status text NOT NULL,
    priority integer,
    opened_on date
);

CREATE TABLE credentials (id integer PRIMARY KEY, service text NOT NULL, username text NOT NULL, secret text NOT NULL);
CREATE TABLE payroll (employee text PRIMARY KEY, salary integer);
CREATE TABLE invoices (id integer PRIMARY KEY, amount integer);

CREATE VIEW customer_directory AS
    SELECT id, name AS person, national_id AS ident, tenant_id AS tenant FROM customers;
CREATE VIEW customer_names (number, label) AS
    SELECT id, upper(name) FROM customers;
CREATE VIEW open_tickets AS
    SELECT t.id, t.subject, c.name AS customer
    FROM tickets AS t JOIN customers AS c ON c.id = t.customer_id
    WHERE t.status = 'open';
CREATE VIEW credential_list AS
    SELECT service, username, secret FROM credentials;
CREATE VIEW risk_view AS
    SELECT id, risk_note FROM customers;
-- Rows that a query gave at some time: whose they are is not known any more.
CREATE MATERIALIZED VIEW customer_cache AS
    SELECT id, name, national_id FROM customers;
CREATE MATERIALIZED VIEW service_counts AS
    SELECT service, count(*) AS n FROM credentials GROUP BY service;

CREATE TABLE settings (key text PRIMARY KEY, value text);

CREATE TABLE audit_events (id integer PRIMARY KEY, tenant_id integer NOT NULL, what text NOT NULL, score double precision);
CREATE TABLE ticket_tags (ticket_id integer NOT NULL, tag text NOT NULL);
CREATE TABLE calls (tenant_id integer NOT NULL, caller text NOT NULL, seconds integer);
CREATE TABLE teams (code text PRIMARY KEY, region text, lead text);
CREATE TABLE readings (id integer PRIMARY KEY, tenant_id integer, value text);

-- Rows of one are rows of the other.
CREATE TABLE vip_customers (rank integer, feeling mood) INHERITS (customers);
CREATE TABLE visits (id integer NOT NULL, on_day date NOT NULL, page text) PARTITION BY RANGE (on_day);
CREATE TABLE visits_2026 PARTITION OF visits FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE hr.people (id integer PRIMARY KEY, full_name text, home address);

CREATE FUNCTION code_is_known(code text) RETURNS boolean LANGUAGE sql AS $$ SELECT code <> '' $$;
CREATE FUNCTION price_of(item integer, currency text DEFAULT 'EUR') RETURNS numeric LANGUAGE sql AS $$ SELECT 1.0 $$;
CREATE FUNCTION national_ids() RETURNS TABLE (id integer, ident text) LANGUAGE sql SECURITY DEFINER
    AS $$ SELECT id, national_id FROM customers; $$;
CREATE FUNCTION same_text(a text, b text) RETURNS boolean LANGUAGE sql AS $$ SELECT a = b $$;
CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = same_text);
CREATE FUNCTION mood_rank(of mood) RETURNS integer LANGUAGE sql AS $$ SELECT length(of::text) $$;
CREATE CAST (mood AS integer) WITH FUNCTION mood_rank(mood);

COPY customers (id, tenant_id, name) FROM stdin;
1	1	Ada; CREATE TABLE not_there (a int);
\.
