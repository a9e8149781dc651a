-- The shop of `shop.sql` as a PostgreSQL database: everybody may see everything.

CREATE TABLE customers (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, city text, joined_on date);
CREATE TABLE products (id serial PRIMARY KEY, sku text UNIQUE, title text, price numeric(10,2), category text, attributes jsonb);
CREATE TABLE orders (id integer PRIMARY KEY, customer_id integer REFERENCES customers, placed_on date, status text);
CREATE TABLE lines (order_id integer NOT NULL, product_id integer NOT NULL, quantity integer NOT NULL, PRIMARY KEY (order_id, product_id));
CREATE TABLE employees (id integer PRIMARY KEY, name text, boss_id integer);
CREATE TABLE "Mixed Case" ("Order" integer, "two words" text);
CREATE TABLE samples (id integer PRIMARY KEY, bytes bytea, tags text[], at timestamptz, lasts interval, ratio double precision);

CREATE VIEW order_totals AS
    SELECT o.id AS order_id, o.customer_id, sum(l.quantity * p.price) AS total
    FROM orders AS o JOIN lines AS l ON l.order_id = o.id JOIN products AS p ON p.id = l.product_id
    GROUP BY o.id, o.customer_id;
CREATE VIEW cities (place) AS SELECT DISTINCT city FROM customers WHERE city IS NOT NULL;
CREATE MATERIALIZED VIEW best_sellers AS
    SELECT product_id, sum(quantity) AS sold FROM lines GROUP BY product_id WITH NO DATA;
